// SPDX-License-Identifier: GPL-2.0
/*
 * ethtool operations, with mlx5's names, limits and defaults.
 */
#include <linux/ethtool.h>
#include <linux/log2.h>
#include <linux/rtnetlink.h>

#include "mlx5sim.h"

#define FIRMWARE	MLX5SIM_FIRMWARE " (" MLX5SIM_PSID ")"
#define RING_DEFAULT	1024
#define RING_MAX	8192
#define RX_RING_MIN	2
#define TX_RING_MIN	64
#define CHANNELS	8
#define MAX_COALESCE_USECS	4095
#define MAX_COALESCE_FRAMES	65535

/* --- Identity and link -------------------------------------------------- */

static void get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);

	strscpy(info->driver, MLX5SIM_DRIVER, sizeof(info->driver));
	strscpy(info->fw_version, FIRMWARE, sizeof(info->fw_version));
	strscpy(info->bus_info, priv->port->bdf, sizeof(info->bus_info));
}

static int get_link_ksettings(struct net_device *dev,
			      struct ethtool_link_ksettings *ks)
{
	bool up = netif_carrier_ok(dev);

	ethtool_link_ksettings_zero_link_mode(ks, supported);
	ethtool_link_ksettings_zero_link_mode(ks, advertising);
	ethtool_link_ksettings_add_link_mode(ks, supported, 200000baseCR4_Full);
	ethtool_link_ksettings_add_link_mode(ks, supported, 100000baseCR4_Full);
	ethtool_link_ksettings_add_link_mode(ks, supported, Pause);
	ethtool_link_ksettings_add_link_mode(ks, supported, FEC_RS);
	ethtool_link_ksettings_add_link_mode(ks, advertising,
					     200000baseCR4_Full);
	ks->base.speed = up ? mlx5sim_speed : SPEED_UNKNOWN;
	ks->base.duplex = up ? DUPLEX_FULL : DUPLEX_UNKNOWN;
	ks->base.autoneg = AUTONEG_DISABLE;
	ks->base.port = PORT_DA;
	return 0;
}

static int get_fecparam(struct net_device *dev, struct ethtool_fecparam *fec)
{
	fec->fec = ETHTOOL_FEC_AUTO;
	fec->active_fec = ETHTOOL_FEC_RS;
	return 0;
}

/* --- Global pause ------------------------------------------------------- */

static void get_pauseparam(struct net_device *dev,
			   struct ethtool_pauseparam *pause)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);

	pause->autoneg = AUTONEG_DISABLE;
	pause->rx_pause = priv->port->fw.rx_pause;
	pause->tx_pause = priv->port->fw.tx_pause;
}

/* Sent with the PFC masks not selected: they stay as they are. */
static int set_pauseparam(struct net_device *dev,
			  struct ethtool_pauseparam *pause)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_PAUSE, &err))
		return err;
	if (pause->autoneg)
		return -EINVAL;
	priv->port->fw.rx_pause = pause->rx_pause;
	priv->port->fw.tx_pause = pause->tx_pause;
	return 0;
}

static void get_pause_stats(struct net_device *dev,
			    struct ethtool_pause_stats *stats)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	atomic64_t *one = priv->port->counters.one;

	stats->tx_pause_frames =
		atomic64_read(&one[MLX5SIM_C_tx_pause_ctrl_phy]);
	stats->rx_pause_frames =
		atomic64_read(&one[MLX5SIM_C_rx_pause_ctrl_phy]);
}

/* --- Rings and channels ------------------------------------------------- */

static void get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			  struct kernel_ethtool_ringparam *kernel_ring,
			  struct netlink_ext_ack *extack)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);

	ring->rx_max_pending = RING_MAX;
	ring->tx_max_pending = RING_MAX;
	ring->rx_pending = priv->rx_ring;
	ring->tx_pending = priv->tx_ring;
}

/* Sizes are powers of two: others are rounded up. */
static int set_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			 struct kernel_ethtool_ringparam *kernel_ring,
			 struct netlink_ext_ack *extack)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	u32 rx, tx;
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_RINGS, &err))
		return err;
	if (ring->rx_jumbo_pending || ring->rx_mini_pending)
		return -EINVAL;
	if (ring->rx_pending < RX_RING_MIN || ring->tx_pending < TX_RING_MIN) {
		netdev_info(dev, "ring sizes %u and %u are too small\n",
			    ring->rx_pending, ring->tx_pending);
		return -EINVAL;
	}
	rx = roundup_pow_of_two(ring->rx_pending);
	tx = roundup_pow_of_two(ring->tx_pending);
	if (rx == priv->rx_ring && tx == priv->tx_ring)
		return 0;
	priv->rx_ring = rx;
	priv->tx_ring = tx;
	mlx5sim_restart_channels(priv);
	return 0;
}

static void get_channels(struct net_device *dev, struct ethtool_channels *ch)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);

	ch->max_combined = MLX5SIM_MAX_CHANNELS;
	ch->combined_count = priv->channels;
}

static int set_channels(struct net_device *dev, struct ethtool_channels *ch)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_CHANNELS, &err))
		return err;
	if (!ch->combined_count) {
		netdev_info(dev, "combined_count=0 not supported\n");
		return -EINVAL;
	}
	if (ch->combined_count == priv->channels)
		return 0;
	if (priv->mqprio == MLX5SIM_MQPRIO_CHANNEL) {
		netdev_err(dev, "MQPRIO mode channel offload is active, cannot set channels\n");
		return -EINVAL;
	}
	err = mlx5sim_set_queues(priv, ch->combined_count, priv->mqprio);
	if (!err)
		mlx5sim_restart_channels(priv);
	return err;
}

/* --- Coalescing --------------------------------------------------------- */

static int get_coalesce(struct net_device *dev, struct ethtool_coalesce *coal,
			struct kernel_ethtool_coalesce *kernel_coal,
			struct netlink_ext_ack *extack)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	struct mlx5sim_coalesce *c = &priv->coalesce;

	coal->rx_coalesce_usecs = c->rx_usecs;
	coal->rx_max_coalesced_frames = c->rx_frames;
	coal->tx_coalesce_usecs = c->tx_usecs;
	coal->tx_max_coalesced_frames = c->tx_frames;
	coal->use_adaptive_rx_coalesce = c->adaptive_rx;
	coal->use_adaptive_tx_coalesce = c->adaptive_tx;
	kernel_coal->use_cqe_mode_rx =
		priv->flags & BIT(MLX5SIM_FLAG_RX_CQE_MODER);
	kernel_coal->use_cqe_mode_tx =
		priv->flags & BIT(MLX5SIM_FLAG_TX_CQE_MODER);
	return 0;
}

static int check_coalesce(struct net_device *dev,
			  const struct ethtool_coalesce *coal)
{
	if (coal->rx_coalesce_usecs > MAX_COALESCE_USECS ||
	    coal->tx_coalesce_usecs > MAX_COALESCE_USECS) {
		netdev_info(dev, "maximum coalesce time supported is %d usecs\n",
			    MAX_COALESCE_USECS);
		return -ERANGE;
	}
	if (coal->rx_max_coalesced_frames > MAX_COALESCE_FRAMES ||
	    coal->tx_max_coalesced_frames > MAX_COALESCE_FRAMES) {
		netdev_info(dev, "maximum coalesced frames supported is %d\n",
			    MAX_COALESCE_FRAMES);
		return -ERANGE;
	}
	return 0;
}

static void set_flag(struct mlx5sim_priv *priv, int flag, bool on)
{
	priv->flags = on ? priv->flags | BIT(flag) : priv->flags & ~BIT(flag);
}

static int set_coalesce(struct net_device *dev, struct ethtool_coalesce *coal,
			struct kernel_ethtool_coalesce *kernel_coal,
			struct netlink_ext_ack *extack)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	struct mlx5sim_coalesce *c = &priv->coalesce;
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_COALESCE, &err))
		return err;
	err = check_coalesce(dev, coal);
	if (err)
		return err;
	c->rx_usecs = coal->rx_coalesce_usecs;
	c->rx_frames = coal->rx_max_coalesced_frames;
	c->tx_usecs = coal->tx_coalesce_usecs;
	c->tx_frames = coal->tx_max_coalesced_frames;
	c->adaptive_rx = coal->use_adaptive_rx_coalesce;
	c->adaptive_tx = coal->use_adaptive_tx_coalesce;
	set_flag(priv, MLX5SIM_FLAG_RX_CQE_MODER, kernel_coal->use_cqe_mode_rx);
	set_flag(priv, MLX5SIM_FLAG_TX_CQE_MODER, kernel_coal->use_cqe_mode_tx);
	return 0;
}

/* --- Private flags ------------------------------------------------------ */

static const char flag_names[MLX5SIM_FLAG_COUNT][ETH_GSTRING_LEN] = {
	[MLX5SIM_FLAG_RX_CQE_MODER]		= "rx_cqe_moder",
	[MLX5SIM_FLAG_TX_CQE_MODER]		= "tx_cqe_moder",
	[MLX5SIM_FLAG_RX_CQE_COMPRESS]		= "rx_cqe_compress",
	[MLX5SIM_FLAG_RX_STRIDING_RQ]		= "rx_striding_rq",
	[MLX5SIM_FLAG_RX_NO_CSUM_COMPLETE]	= "rx_no_csum_complete",
	[MLX5SIM_FLAG_XDP_TX_MPWQE]		= "xdp_tx_mpwqe",
	[MLX5SIM_FLAG_SKB_TX_MPWQE]		= "skb_tx_mpwqe",
	[MLX5SIM_FLAG_TX_PORT_TS]		= "tx_port_ts",
};

static u32 get_priv_flags(struct net_device *dev)
{
	return ((struct mlx5sim_priv *)netdev_priv(dev))->flags;
}

static int set_priv_flags(struct net_device *dev, u32 flags)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_FLAGS, &err))
		return err;
	if (flags & BIT(MLX5SIM_FLAG_TX_PORT_TS) &&
	    priv->mqprio == MLX5SIM_MQPRIO_CHANNEL)
		return -EINVAL;
	if (!(flags & BIT(MLX5SIM_FLAG_RX_STRIDING_RQ)) &&
	    dev->features & NETIF_F_LRO) {
		netdev_warn(dev, "Can't set legacy RQ with LRO, disable it first\n");
		return -EINVAL;
	}
	priv->flags = flags;
	return 0;
}

/* --- Statistics --------------------------------------------------------- */

static bool count_counter(void *arg, const char *name, atomic64_t *counter)
{
	++*(int *)arg;
	return true;
}

static bool copy_name(void *arg, const char *name, atomic64_t *counter)
{
	ethtool_puts(arg, name);
	return true;
}

static bool copy_value(void *arg, const char *name, atomic64_t *counter)
{
	u64 **next = arg;

	*(*next)++ = atomic64_read(counter);
	return true;
}

static int get_sset_count(struct net_device *dev, int sset)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int count = 0;

	switch (sset) {
	case ETH_SS_STATS:
		mlx5sim_visit_counters(priv->port, false, count_counter, &count);
		return count;
	case ETH_SS_PRIV_FLAGS:
		return MLX5SIM_FLAG_COUNT;
	default:
		return -EOPNOTSUPP;
	}
}

static void get_strings(struct net_device *dev, u32 sset, u8 *data)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);

	switch (sset) {
	case ETH_SS_STATS:
		mlx5sim_visit_counters(priv->port, false, copy_name, &data);
		break;
	case ETH_SS_PRIV_FLAGS:
		memcpy(data, flag_names, sizeof(flag_names));
		break;
	}
}

static void get_ethtool_stats(struct net_device *dev,
			      struct ethtool_stats *stats, u64 *data)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);

	mlx5sim_visit_counters(priv->port, false, copy_value, &data);
}

const struct ethtool_ops mlx5sim_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_USECS |
				     ETHTOOL_COALESCE_MAX_FRAMES |
				     ETHTOOL_COALESCE_USE_ADAPTIVE |
				     ETHTOOL_COALESCE_USE_CQE,
	.get_drvinfo		= get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_link_ksettings	= get_link_ksettings,
	.get_fecparam		= get_fecparam,
	.get_pauseparam		= get_pauseparam,
	.set_pauseparam		= set_pauseparam,
	.get_pause_stats	= get_pause_stats,
	.get_ringparam		= get_ringparam,
	.set_ringparam		= set_ringparam,
	.get_channels		= get_channels,
	.set_channels		= set_channels,
	.get_coalesce		= get_coalesce,
	.set_coalesce		= set_coalesce,
	.get_priv_flags		= get_priv_flags,
	.set_priv_flags		= set_priv_flags,
	.get_sset_count		= get_sset_count,
	.get_strings		= get_strings,
	.get_ethtool_stats	= get_ethtool_stats,
	.get_ts_info		= ethtool_op_get_ts_info,
};

/* What the driver starts with. */
void mlx5sim_ethtool_defaults(struct mlx5sim_priv *priv)
{
	priv->channels = CHANNELS;
	priv->rx_ring = RING_DEFAULT;
	priv->tx_ring = RING_DEFAULT;
	priv->flags = BIT(MLX5SIM_FLAG_RX_CQE_MODER) |
		      BIT(MLX5SIM_FLAG_RX_STRIDING_RQ) |
		      BIT(MLX5SIM_FLAG_XDP_TX_MPWQE) |
		      BIT(MLX5SIM_FLAG_SKB_TX_MPWQE);
	priv->coalesce = (struct mlx5sim_coalesce) {
		.rx_usecs = 8,
		.rx_frames = 128,
		.tx_usecs = 16,
		.tx_frames = 32,
		.adaptive_rx = true,
		.adaptive_tx = true,
	};
}
