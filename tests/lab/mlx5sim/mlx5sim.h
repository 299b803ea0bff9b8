/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mlx5sim: ports of an mlx5 card, simulated on top of other network devices.
 *
 * Module mlx5sim is the hardware: PCI functions, firmware, counters, knobs.
 * Module mlx5_core is the driver, mlx5_ib what its namesake adds to RDMA
 * devices. Three lifetimes are kept apart, as on a real card:
 *   struct mlx5sim_port  what the module parameters ask for (hardware)
 *   struct mlx5sim_fw    firmware registers: survive a driver reload
 *   struct mlx5sim_priv  driver state: lost when the driver is unbound
 */
#ifndef MLX5SIM_H
#define MLX5SIM_H

#include <linux/atomic.h>
#include <linux/dcbnl.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <net/dcbnl.h>

#define MLX5SIM_DRIVER		"mlx5_core"
#define MLX5SIM_MAX_PORTS	8
#define MLX5SIM_PRIOS		8
#define MLX5SIM_DSCPS		64
#define MLX5SIM_BUFFERS		8
#define MLX5SIM_TXQS		64
#define MLX5SIM_MAX_CHANNELS	63
#define MLX5SIM_MAX_MTU		9978
#define MLX5SIM_ROCE_UDP_PORT	4791
#define MLX5SIM_FIRMWARE	"22.39.1002"
#define MLX5SIM_PSID		"MT_0000000359"
#define MLX5SIM_CELL		128U
#define MLX5SIM_BUFFER_TOTAL	(8024U * MLX5SIM_CELL)

/* What a test can make the card ignore or refuse. */
enum mlx5sim_setting {
	MLX5SIM_SET_ETS,
	MLX5SIM_SET_PFC,
	MLX5SIM_SET_APP,
	MLX5SIM_SET_DCBX,
	MLX5SIM_SET_MTU,
	MLX5SIM_SET_PAUSE,
	MLX5SIM_SET_CHANNELS,
	MLX5SIM_SET_RINGS,
	MLX5SIM_SET_BUFFER,
	MLX5SIM_SET_MAXRATE,
	MLX5SIM_SET_MQPRIO,
	MLX5SIM_SET_FLAGS,
	MLX5SIM_SET_COALESCE,
	MLX5SIM_SET_CC,
	MLX5SIM_SET_FEATURES,
	MLX5SIM_SET_DEVLINK,
	MLX5SIM_SET_PCI,
	MLX5SIM_SETTINGS
};

enum mlx5sim_fault {
	MLX5SIM_FAULT_NONE,
	MLX5SIM_FAULT_IGNORE,
	MLX5SIM_FAULT_REFUSE,
};

/*
 * Congestion control parameters: reaction or notification point, OFED file
 * (NULL = has none), inbox file, smallest and largest value, default.
 */
#define MLX5SIM_CC_PARAMS(X)						\
	X(RP, "clamp_tgt_rate", "rp_clamp_tgt_rate", 0, 1, 0)		\
	X(RP, "clamp_tgt_rate_after_time_inc",			\
	  "rp_clamp_tgt_rate_ati", 0, 1, 1)				\
	X(RP, "rpg_time_reset", "rp_time_reset", 0, 131071, 300)	\
	X(RP, "rpg_byte_reset", "rp_byte_reset", 0, U32_MAX, 32767)	\
	X(RP, "rpg_threshold", "rp_threshold", 0, 31, 1)		\
	X(RP, "rpg_ai_rate", "rp_ai_rate", 0, U32_MAX, 5)		\
	X(RP, "rpg_max_rate", "rp_max_rate", 0, U32_MAX, 0)		\
	X(RP, "rpg_hai_rate", "rp_hai_rate", 0, U32_MAX, 50)		\
	X(RP, "rpg_min_dec_fac", "rp_min_dec_fac", 1, 100, 50)	\
	X(RP, "rpg_min_rate", "rp_min_rate", 0, U32_MAX, 1)		\
	X(RP, "rate_to_set_on_first_cnp",				\
	  "rp_rate_to_set_on_first_cnp", 0, U32_MAX, 0)			\
	X(RP, "dce_tcp_g", "rp_dce_tcp_g", 1, 1023, 1019)		\
	X(RP, "dce_tcp_rtt", "rp_dce_tcp_rtt", 1, 131071, 1)		\
	X(RP, "rate_reduce_monitor_period",				\
	  "rp_rate_reduce_monitor_period", 1, 131071, 4)		\
	X(RP, "initial_alpha_value", "rp_initial_alpha_value",	\
	  0, 1023, 1023)						\
	X(RP, "rpg_gd", "rp_gd", 0, 15, 11)				\
	X(NP, "min_time_between_cnps", "np_min_time_between_cnps",	\
	  0, 131071, 4)							\
	X(NP, "cnp_dscp", "np_cnp_dscp", 0, 63, 48)			\
	X(NP, NULL, "np_cnp_prio_mode", 0, 1, 1)			\
	X(NP, "cnp_802p_prio", "np_cnp_prio", 0, 7, 6)

enum {
#define MLX5SIM_CC_ONE(...) + 1
	MLX5SIM_CC_PARAM_COUNT = 0 MLX5SIM_CC_PARAMS(MLX5SIM_CC_ONE)
};

enum { MLX5SIM_CC_RP, MLX5SIM_CC_NP, MLX5SIM_CC_SIDES };

struct mlx5sim_fw {
	bool trust_dscp;
	bool dcbx_host;
	bool rx_pause;
	bool tx_pause;
	bool manual_buffer;
	u8 dscp2prio[MLX5SIM_DSCPS];
	u8 pfc_en;
	u8 prio2buffer[MLX5SIM_PRIOS];
	u8 cc_enable[MLX5SIM_CC_SIDES];	/* bit masks of priorities */
	u16 cable_m;
	u32 buffer_size[MLX5SIM_BUFFERS];
	u32 cc[MLX5SIM_CC_PARAM_COUNT];
	u64 maxrate[MLX5SIM_PRIOS];	/* kbit/s, 0 = unlimited */
};

/* Counters that exist once, in the order of `ethtool -S`. */
#define MLX5SIM_COUNTERS(X)						\
	X(rx_packets) X(rx_bytes) X(tx_packets) X(tx_bytes)		\
	X(rx_ecn_mark) X(tx_queue_dropped) X(rx_out_of_buffer)		\
	X(rx_vport_rdma_unicast_packets) X(rx_vport_rdma_unicast_bytes)	\
	X(tx_vport_rdma_unicast_packets) X(tx_vport_rdma_unicast_bytes)	\
	X(tx_packets_phy) X(rx_packets_phy) X(rx_crc_errors_phy)	\
	X(tx_bytes_phy) X(rx_bytes_phy)					\
	X(tx_pause_ctrl_phy) X(rx_pause_ctrl_phy)			\
	X(rx_discards_phy) X(tx_discards_phy) X(tx_errors_phy)		\
	X(rx_symbol_err_phy) X(link_down_events_phy)			\
	X(rx_pcs_symbol_err_phy) X(rx_corrected_bits_phy)		\
	X(rx_buffer_passed_thres_phy)					\
	X(outbound_pci_stalled_rd) X(outbound_pci_stalled_wr)		\
	X(outbound_pci_stalled_rd_events)				\
	X(outbound_pci_stalled_wr_events)				\
	X(outbound_pci_buffer_overflow) X(dev_out_of_buffer)		\
	X(tx_pause_storm_warning_events) X(tx_pause_storm_error_events)

/* Only among the hw_counters of the RDMA device, where rxe has others. */
#define MLX5SIM_RDMA_COUNTERS(X)					\
	X(rx_write_requests) X(rx_read_requests) X(rx_atomic_requests)	\
	X(rx_dct_connect) X(out_of_buffer) X(out_of_sequence)		\
	X(rnr_nak_retry_err) X(packet_seq_err) X(implied_nak_seq_err)	\
	X(local_ack_timeout_err) X(rp_cnp_ignored) X(rp_cnp_handled)	\
	X(np_ecn_marked_roce_packets) X(np_cnp_sent)			\
	X(resp_local_length_error) X(resp_cqe_error) X(req_cqe_error)	\
	X(req_remote_invalid_request) X(req_remote_access_errors)	\
	X(resp_remote_access_errors) X(resp_cqe_flush_error)		\
	X(req_cqe_flush_error) X(req_transport_retries_exceeded)	\
	X(req_rnr_retries_exceeded) X(roce_adp_retrans)			\
	X(roce_adp_retrans_to) X(roce_slow_restart)			\
	X(roce_slow_restart_cnps) X(roce_slow_restart_trans)		\
	X(rx_icrc_encapsulated)

/* Counters of each priority. */
#define MLX5SIM_PRIO_COUNTERS(X)					\
	X(rx, bytes) X(rx, packets) X(tx, bytes) X(tx, packets)		\
	X(rx, discards) X(rx, buf_discard) X(rx, cong_discard)		\
	X(rx, marked)

/* Only for PFC priorities, or with global pause: see ethtool.c. */
#define MLX5SIM_PAUSE_COUNTERS(X)					\
	X(rx, pause) X(rx, pause_duration) X(tx, pause)			\
	X(tx, pause_duration) X(rx, pause_transition)

enum {
#define MLX5SIM_C(n) MLX5SIM_C_##n,
	MLX5SIM_COUNTERS(MLX5SIM_C)
	MLX5SIM_COUNTER_COUNT
};

enum {
#define MLX5SIM_CR(n) MLX5SIM_CR_##n,
	MLX5SIM_RDMA_COUNTERS(MLX5SIM_CR)
	MLX5SIM_RDMA_COUNTER_COUNT
};

enum {
#define MLX5SIM_CP(d, n) MLX5SIM_CP_##d##_##n,
	MLX5SIM_PRIO_COUNTERS(MLX5SIM_CP)
	MLX5SIM_PRIO_COUNTER_COUNT
};

enum {
#define MLX5SIM_CF(d, n) MLX5SIM_CF_##d##_##n,
	MLX5SIM_PAUSE_COUNTERS(MLX5SIM_CF)
	MLX5SIM_PAUSE_COUNTER_COUNT
};

/* The last row of pause counters is that of global pause. */
#define MLX5SIM_GLOBAL_PAUSE	MLX5SIM_PRIOS

struct mlx5sim_counters {
	atomic64_t one[MLX5SIM_COUNTER_COUNT];
	atomic64_t rdma[MLX5SIM_RDMA_COUNTER_COUNT];
	atomic64_t prio[MLX5SIM_PRIOS][MLX5SIM_PRIO_COUNTER_COUNT];
	atomic64_t pause[MLX5SIM_PRIOS + 1][MLX5SIM_PAUSE_COUNTER_COUNT];
};

/* PCI functions of a port: see pci.c. */
enum {
	MLX5SIM_ROOT_PORT,
	MLX5SIM_NIC,
	MLX5SIM_GPU_ROOT_PORT,
	MLX5SIM_GPU,
	MLX5SIM_FUNCTIONS
};

struct mlx5sim_function {
	u8 bus;
	u8 devfn;
	u8 config[PCI_CFG_SPACE_EXP_SIZE];
	u8 writable[PCI_CFG_SPACE_EXP_SIZE];	/* masks of bits */
};

struct mlx5sim_cc;
struct mlx5sim_irqs;
struct mlx5sim_port;
struct mlx5sim_priv;

/* What the hardware tells the driver, under RTNL while port->priv is set. */
struct mlx5sim_driver_ops {
	void (*lower_event)(struct mlx5sim_port *port, unsigned long event);
	void (*update_carrier)(struct mlx5sim_priv *priv);
};

struct mlx5sim_port {
	const char *lower_name;
	const char *name;
	const char *bdf;
	int numa;
	int index;
	bool gpu;			/* one sits beside it */
	bool ofed;

	struct pci_bus *root;		/* under the module's port mutex */
	struct pci_sysdata sysdata;
	struct resource busn;
	int function_count;
	struct mlx5sim_function functions[MLX5SIM_FUNCTIONS];
	bool lower_gone;		/* written under RTNL */
	struct mlx5sim_priv *priv;	/* RTNL; NULL while unbound */
	const struct mlx5sim_driver_ops *driver;	/* valid with priv */
	struct mlx5sim_irqs *irqs;	/* the driver's */

	struct mlx5sim_fw fw;
	struct mlx5sim_counters counters;
	u8 fault[MLX5SIM_SETTINGS];
	bool cable_out;			/* RTNL */
	char fw_stored[16];		/* the version after the next reset */
	struct dentry *debugfs;
};

enum mlx5sim_mqprio {
	MLX5SIM_MQPRIO_OFF,
	MLX5SIM_MQPRIO_DCB,
	MLX5SIM_MQPRIO_CHANNEL,
};

struct mlx5sim_coalesce {
	u32 rx_usecs;
	u32 rx_frames;
	u32 tx_usecs;
	u32 tx_frames;
	bool adaptive_rx;
	bool adaptive_tx;
};

struct mlx5sim_priv {
	struct mlx5sim_port *port;
	struct net_device *dev;
	struct net_device __rcu *lower;
	netdevice_tracker lower_tracker;

	struct delayed_work bounce_work;
	bool bouncing;			/* RTNL */

	u32 channels;
	u32 rx_ring;
	u32 tx_ring;
	u32 flags;
	struct mlx5sim_coalesce coalesce;
	enum mlx5sim_mqprio mqprio;
	u8 channel_tcs;

	u8 prio_tc[MLX5SIM_PRIOS];
	u8 tc_tsa[MLX5SIM_PRIOS];
	u8 tc_bw[MLX5SIM_PRIOS];
	unsigned int dscp_entries;

	struct mlx5sim_cc *cc;		/* cc.c */
};

/* Private flags, in the driver's order. */
enum {
	MLX5SIM_FLAG_RX_CQE_MODER,
	MLX5SIM_FLAG_TX_CQE_MODER,
	MLX5SIM_FLAG_RX_CQE_COMPRESS,
	MLX5SIM_FLAG_RX_STRIDING_RQ,
	MLX5SIM_FLAG_RX_NO_CSUM_COMPLETE,
	MLX5SIM_FLAG_XDP_TX_MPWQE,
	MLX5SIM_FLAG_SKB_TX_MPWQE,
	MLX5SIM_FLAG_TX_PORT_TS,
	MLX5SIM_FLAG_COUNT
};

static inline void mlx5sim_count(struct mlx5sim_port *port, int counter, u64 n)
{
	atomic64_add(n, &port->counters.one[counter]);
}

/*
 * True when a test broke this setting: *err is then what the set call
 * answers (0 = pretends to have done it).
 */
static inline bool mlx5sim_broken(const struct mlx5sim_port *port,
				  enum mlx5sim_setting setting, int *err)
{
	u8 fault = READ_ONCE(port->fault[setting]);

	*err = fault == MLX5SIM_FAULT_REFUSE ? -EINVAL : 0;
	return fault != MLX5SIM_FAULT_NONE;
}

/* --- Module mlx5sim ----------------------------------------------------- */

/* main.c */
extern int mlx5sim_speed;
extern unsigned int mlx5sim_bounce_ms;

/* pci.c */
int mlx5sim_pci_init(struct mlx5sim_port *port, u16 device);
int mlx5sim_pci_add(struct mlx5sim_port *port);
void mlx5sim_pci_del(struct mlx5sim_port *port);
int mlx5sim_pci_set_link(struct mlx5sim_port *port, int speed, int width);
struct mlx5sim_port *mlx5sim_pci_port(struct pci_dev *pdev);

/* counters.c */
typedef bool (*mlx5sim_counter_fn)(void *arg, const char *name,
				   atomic64_t *counter);
void mlx5sim_visit_counters(struct mlx5sim_port *port, bool all,
			    mlx5sim_counter_fn fn, void *arg);
atomic64_t *mlx5sim_find_counter(struct mlx5sim_port *port, const char *name);
extern const char * const mlx5sim_rdma_counter_names[];

/* debugfs.c */
void mlx5sim_debugfs_init(void);
void mlx5sim_debugfs_exit(void);
void mlx5sim_debugfs_add(struct mlx5sim_port *port);

/* --- Module mlx5_core --------------------------------------------------- */

/* port.c */
int mlx5sim_port_create(struct mlx5sim_port *port, struct device *parent);
void mlx5sim_port_destroy(struct mlx5sim_port *port);
void mlx5sim_update_carrier(struct mlx5sim_priv *priv);
void mlx5sim_bounce_link(struct mlx5sim_priv *priv);
void mlx5sim_restart_channels(struct mlx5sim_priv *priv);
struct mlx5sim_port *mlx5sim_netdev_port(const struct net_device *dev);

/* irq.c */
struct mlx5sim_irqs *mlx5sim_irqs_add(struct pci_dev *pdev);
void mlx5sim_irqs_del(struct mlx5sim_irqs *irqs);

/* devlink.c */
struct devlink *mlx5sim_devlink_add(struct mlx5sim_port *port,
				    struct pci_dev *pdev);
void mlx5sim_devlink_del(struct devlink *devlink);

/* dcb.c */
extern const struct dcbnl_rtnl_ops mlx5sim_dcbnl_ops;
void mlx5sim_dcb_start(struct mlx5sim_priv *priv);
int mlx5sim_set_trust(struct mlx5sim_priv *priv, bool dscp);
int mlx5sim_check_buffers(struct mlx5sim_priv *priv,
			  const u8 *prio2buffer, const u32 *size);

/* tc.c */
int mlx5sim_setup_tc(struct net_device *dev, enum tc_setup_type type,
		     void *type_data);
int mlx5sim_set_queues(struct mlx5sim_priv *priv, u32 channels,
		       enum mlx5sim_mqprio mode);
u16 mlx5sim_select_queue(struct net_device *dev, struct sk_buff *skb,
			 struct net_device *sb_dev);

/* ethtool.c */
extern const struct ethtool_ops mlx5sim_ethtool_ops;
void mlx5sim_ethtool_defaults(struct mlx5sim_priv *priv);

/* cc.c */
void mlx5sim_cc_start(struct mlx5sim_priv *priv);
void mlx5sim_cc_stop(struct mlx5sim_priv *priv);
void mlx5sim_cc_exit(void);

/* The packet's priority, as the port would see it (port.c). */
u8 mlx5sim_skb_prio(const struct mlx5sim_port *port, const struct sk_buff *skb,
		    int l3_offset);

#endif
