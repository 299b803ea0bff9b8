// SPDX-License-Identifier: GPL-2.0
/*
 * The network device: stacked on the lower one, which it takes over whole.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/udp.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ip.h>

#include "mlx5sim.h"

/* What the port sees in a packet's headers. */
struct headers {
	u8 dsfield;
	u8 pcp;
	bool ip;
	bool roce;
};

/* --- Classification ----------------------------------------------------- */

static bool is_roce(const struct sk_buff *skb, int l4_offset)
{
	const struct udphdr *udp;
	struct udphdr buf;

	udp = skb_header_pointer(skb, l4_offset, sizeof(buf), &buf);
	return udp && udp->dest == htons(MLX5SIM_ROCE_UDP_PORT);
}

static void parse_ipv4(const struct sk_buff *skb, int offset,
		       struct headers *h)
{
	const struct iphdr *ip;
	struct iphdr buf;

	ip = skb_header_pointer(skb, offset, sizeof(buf), &buf);
	if (!ip)
		return;
	h->ip = true;
	h->dsfield = ip->tos;
	h->roce = ip->protocol == IPPROTO_UDP &&
		  !(ip->frag_off & htons(IP_OFFSET)) &&
		  is_roce(skb, offset + ip->ihl * 4);
}

static void parse_ipv6(const struct sk_buff *skb, int offset,
		       struct headers *h)
{
	const struct ipv6hdr *ip;
	struct ipv6hdr buf;

	ip = skb_header_pointer(skb, offset, sizeof(buf), &buf);
	if (!ip)
		return;
	h->ip = true;
	h->dsfield = ipv6_get_dsfield(ip);
	h->roce = ip->nexthdr == IPPROTO_UDP &&
		  is_roce(skb, offset + sizeof(*ip));
}

static void parse_headers(const struct sk_buff *skb, int offset,
			  struct headers *h)
{
	__be16 proto = skb->protocol;
	const struct vlan_hdr *vlan;
	struct vlan_hdr buf;

	memset(h, 0, sizeof(*h));
	if (skb_vlan_tag_present(skb))
		h->pcp = skb_vlan_tag_get_prio(skb);
	if (eth_type_vlan(proto)) {
		vlan = skb_header_pointer(skb, offset, sizeof(buf), &buf);
		if (!vlan)
			return;
		h->pcp = (ntohs(vlan->h_vlan_TCI) & VLAN_PRIO_MASK) >>
			 VLAN_PRIO_SHIFT;
		proto = vlan->h_vlan_encapsulated_proto;
		offset += VLAN_HLEN;
	}
	if (proto == htons(ETH_P_IP))
		parse_ipv4(skb, offset, h);
	else if (proto == htons(ETH_P_IPV6))
		parse_ipv6(skb, offset, h);
}

/*
 * Trust dscp: by DSCP, and what is not IP counts as DSCP 0. Trust pcp: by
 * VLAN priority, untagged is priority 0. The skb's own priority plays no part.
 */
static u8 prio_of(const struct mlx5sim_port *port, const struct headers *h)
{
	if (READ_ONCE(port->fw.trust_dscp))
		return READ_ONCE(port->fw.dscp2prio[h->dsfield >> 2]);
	return h->pcp;
}

u8 mlx5sim_skb_prio(const struct mlx5sim_port *port, const struct sk_buff *skb,
		    int l3_offset)
{
	struct headers h;

	parse_headers(skb, l3_offset, &h);
	return prio_of(port, &h);
}

/* --- Counting ----------------------------------------------------------- */

static unsigned int skb_packets(const struct sk_buff *skb)
{
	return max_t(unsigned int, skb_shinfo(skb)->gso_segs, 1);
}

/*
 * On a card RDMA packets show in the rdma, priority and phy counters, not in
 * rx_packets or tx_packets.
 */
static void count_rx(struct mlx5sim_port *port, const struct sk_buff *skb)
{
	unsigned int packets = skb_packets(skb), bytes = skb->len + ETH_HLEN;
	atomic64_t *prio;
	struct headers h;

	parse_headers(skb, 0, &h);
	prio = port->counters.prio[prio_of(port, &h)];
	atomic64_add(packets, &prio[MLX5SIM_CP_rx_packets]);
	atomic64_add(bytes, &prio[MLX5SIM_CP_rx_bytes]);
	mlx5sim_count(port, MLX5SIM_C_rx_packets_phy, packets);
	mlx5sim_count(port, MLX5SIM_C_rx_bytes_phy, bytes);
	mlx5sim_count(port, h.roce ? MLX5SIM_C_rx_vport_rdma_unicast_packets :
		      MLX5SIM_C_rx_packets, packets);
	mlx5sim_count(port, h.roce ? MLX5SIM_C_rx_vport_rdma_unicast_bytes :
		      MLX5SIM_C_rx_bytes, bytes);
	if (h.ip && INET_ECN_is_ce(h.dsfield))
		mlx5sim_count(port, MLX5SIM_C_rx_ecn_mark, packets);
}

static void count_tx(struct mlx5sim_port *port, const struct sk_buff *skb)
{
	unsigned int packets = skb_packets(skb), bytes = skb->len;
	atomic64_t *prio;
	struct headers h;

	parse_headers(skb, ETH_HLEN, &h);
	prio = port->counters.prio[prio_of(port, &h)];
	atomic64_add(packets, &prio[MLX5SIM_CP_tx_packets]);
	atomic64_add(bytes, &prio[MLX5SIM_CP_tx_bytes]);
	mlx5sim_count(port, MLX5SIM_C_tx_packets_phy, packets);
	mlx5sim_count(port, MLX5SIM_C_tx_bytes_phy, bytes);
	mlx5sim_count(port, h.roce ? MLX5SIM_C_tx_vport_rdma_unicast_packets :
		      MLX5SIM_C_tx_packets, packets);
	mlx5sim_count(port, h.roce ? MLX5SIM_C_tx_vport_rdma_unicast_bytes :
		      MLX5SIM_C_tx_bytes, bytes);
}

/* --- Data path ---------------------------------------------------------- */

static netdev_tx_t port_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	struct net_device *lower = rcu_dereference_bh(priv->lower);
	unsigned int len = skb->len;
	int ret;

	if (unlikely(!lower || !netif_carrier_ok(dev))) {
		dev_core_stats_tx_dropped_inc(dev);
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	count_tx(priv->port, skb);
	skb->dev = lower;
	ret = dev_queue_xmit(skb);
	if (likely(ret == NET_XMIT_SUCCESS || ret == NET_XMIT_CN)) {
		dev_sw_netstats_tx_add(dev, 1, len);
	} else {
		mlx5sim_count(priv->port, MLX5SIM_C_tx_queue_dropped, 1);
		dev_core_stats_tx_dropped_inc(dev);
	}
	return NETDEV_TX_OK;
}

/* The lower device compared with its own address, which may differ by now. */
static void fix_pkt_type(struct sk_buff *skb, const struct net_device *dev)
{
	if (skb->pkt_type != PACKET_HOST && skb->pkt_type != PACKET_OTHERHOST)
		return;
	skb->pkt_type = ether_addr_equal(eth_hdr(skb)->h_dest, dev->dev_addr) ?
			PACKET_HOST : PACKET_OTHERHOST;
}

static rx_handler_result_t port_receive(struct sk_buff **pskb)
{
	struct sk_buff *skb = skb_share_check(*pskb, GFP_ATOMIC);
	struct mlx5sim_priv *priv;
	struct net_device *dev;

	if (!skb)
		return RX_HANDLER_CONSUMED;
	*pskb = skb;
	priv = rcu_dereference(skb->dev->rx_handler_data);
	dev = priv->dev;
	/* A link that is down receives nothing, whatever the lower one does. */
	if (!netif_running(dev) || !netif_carrier_ok(dev)) {
		kfree_skb(skb);
		return RX_HANDLER_CONSUMED;
	}
	fix_pkt_type(skb, dev);
	count_rx(priv->port, skb);
	dev_sw_netstats_rx_add(dev, skb->len + ETH_HLEN);
	skb->dev = dev;
	return RX_HANDLER_ANOTHER;
}

/* --- Carrier ------------------------------------------------------------ */

static bool wanted_carrier(const struct mlx5sim_priv *priv)
{
	struct net_device *lower = rtnl_dereference(priv->lower);

	return netif_running(priv->dev) && !priv->bouncing &&
	       !priv->port->cable_out && lower && netif_running(lower) &&
	       netif_carrier_ok(lower);
}

void mlx5sim_update_carrier(struct mlx5sim_priv *priv)
{
	bool wanted = wanted_carrier(priv);

	ASSERT_RTNL();
	if (wanted == !!netif_carrier_ok(priv->dev))
		return;
	if (wanted) {
		netif_carrier_on(priv->dev);
	} else {
		netif_carrier_off(priv->dev);
		mlx5sim_count(priv->port, MLX5SIM_C_link_down_events_phy, 1);
	}
	netdev_info(priv->dev, "Link %s\n", wanted ? "up" : "down");
}

static void end_bounce(struct work_struct *work)
{
	struct mlx5sim_priv *priv = container_of(work, struct mlx5sim_priv,
						 bounce_work.work);

	rtnl_lock();
	priv->bouncing = false;
	mlx5sim_update_carrier(priv);
	rtnl_unlock();
}

/* As the driver toggles the port: down, and up some time later. */
void mlx5sim_bounce_link(struct mlx5sim_priv *priv)
{
	priv->bouncing = true;
	mlx5sim_update_carrier(priv);
	mod_delayed_work(system_wq, &priv->bounce_work,
			 msecs_to_jiffies(mlx5sim_bounce_ms));
}

/*
 * New rings or channels: the driver swaps its channels with the carrier off.
 * The physical link stays up, so this is no link_down event.
 */
void mlx5sim_restart_channels(struct mlx5sim_priv *priv)
{
	if (!netif_carrier_ok(priv->dev))
		return;
	netif_carrier_off(priv->dev);
	netif_carrier_on(priv->dev);
}

/* --- The lower device --------------------------------------------------- */

static int attach_lower(struct mlx5sim_priv *priv, struct net_device *lower)
{
	int err;

	/* Addresses belong on the port: keep IPv6 from adding its own below. */
	lower->priv_flags |= IFF_NO_ADDRCONF;
	err = dev_open(lower, NULL);
	if (err)
		goto err_flag;
	err = netdev_rx_handler_register(lower, port_receive, priv);
	if (err)
		goto err_flag;
	/* Simpler than passing on each multicast and VLAN filter. */
	err = dev_set_promiscuity(lower, 1);
	if (err)
		goto err_handler;
	netdev_hold(lower, &priv->lower_tracker, GFP_KERNEL);
	rcu_assign_pointer(priv->lower, lower);
	return 0;

err_handler:
	netdev_rx_handler_unregister(lower);
err_flag:
	lower->priv_flags &= ~IFF_NO_ADDRCONF;
	return err;
}

static void detach_lower(struct mlx5sim_priv *priv)
{
	struct net_device *lower = rtnl_dereference(priv->lower);

	if (!lower)
		return;
	RCU_INIT_POINTER(priv->lower, NULL);
	netdev_rx_handler_unregister(lower);
	dev_set_promiscuity(lower, -1);
	lower->priv_flags &= ~IFF_NO_ADDRCONF;
	mlx5sim_update_carrier(priv);
	/* Packets on their way down still use it. */
	synchronize_net();
	netdev_put(lower, &priv->lower_tracker);
}

static void lower_event(struct mlx5sim_port *port, unsigned long event)
{
	struct mlx5sim_priv *priv = port->priv;

	switch (event) {
	case NETDEV_UNREGISTER:
		detach_lower(priv);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		mlx5sim_update_carrier(priv);
		break;
	}
}

static const struct mlx5sim_driver_ops driver_ops = {
	.lower_event = lower_event,
	.update_carrier = mlx5sim_update_carrier,
};

/* --- Network device operations ------------------------------------------ */

static int port_open(struct net_device *dev)
{
	mlx5sim_update_carrier(netdev_priv(dev));
	return 0;
}

static int port_stop(struct net_device *dev)
{
	mlx5sim_update_carrier(netdev_priv(dev));
	return 0;
}

static int port_change_mtu(struct net_device *dev, int mtu)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	struct net_device *lower = rtnl_dereference(priv->lower);
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_MTU, &err))
		return err;
	if (lower && lower->mtu < mtu) {
		err = dev_set_mtu(lower, mtu);
		if (err)
			return err;
	}
	WRITE_ONCE(dev->mtu, mtu);
	mlx5sim_restart_channels(priv);
	return 0;
}

/* LRO needs striding; a port that ignores changes keeps what it has. */
static netdev_features_t port_fix_features(struct net_device *dev,
					   netdev_features_t features)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	u8 fault = READ_ONCE(priv->port->fault[MLX5SIM_SET_FEATURES]);

	if (fault == MLX5SIM_FAULT_IGNORE)
		return dev->features;
	if (!(priv->flags & BIT(MLX5SIM_FLAG_RX_STRIDING_RQ)))
		features &= ~NETIF_F_LRO;
	return features;
}

static int port_set_features(struct net_device *dev,
			     netdev_features_t features)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int err;

	mlx5sim_broken(priv->port, MLX5SIM_SET_FEATURES, &err);
	return err;
}

static int port_phys_name(struct net_device *dev, char *name, size_t len)
{
	/* Each simulated card has one port. */
	return snprintf(name, len, "p0") >= len ? -EINVAL : 0;
}

static const struct net_device_ops port_netdev_ops = {
	.ndo_open		= port_open,
	.ndo_stop		= port_stop,
	.ndo_start_xmit		= port_xmit,
	.ndo_select_queue	= mlx5sim_select_queue,
	.ndo_change_mtu		= port_change_mtu,
	.ndo_set_mac_address	= eth_mac_addr,
	.ndo_validate_addr	= eth_validate_addr,
	.ndo_get_stats64	= dev_get_tstats64,
	.ndo_setup_tc		= mlx5sim_setup_tc,
	.ndo_fix_features	= port_fix_features,
	.ndo_set_features	= port_set_features,
	.ndo_get_phys_port_name	= port_phys_name,
};

/* --- Life of a port ----------------------------------------------------- */

static void setup_netdev(struct net_device *dev, const struct net_device *lower)
{
	netdev_features_t offloads = NETIF_F_SG | NETIF_F_HW_CSUM |
				     NETIF_F_RXCSUM | NETIF_F_TSO |
				     NETIF_F_TSO6;

	ether_setup(dev);
	eth_hw_addr_set(dev, lower->dev_addr);
	dev->netdev_ops = &port_netdev_ops;
	dev->ethtool_ops = &mlx5sim_ethtool_ops;
	dev->dcbnl_ops = &mlx5sim_dcbnl_ops;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = MLX5SIM_MAX_MTU;
	dev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	/* No lock of our own: the lower device has one, as for macvlan. */
	dev->lltx = true;
	dev->needed_headroom = lower->needed_headroom;
	dev->needed_tailroom = lower->needed_tailroom;
	/* What the lower device lacks is done in software on the way down. */
	dev->hw_features = offloads | NETIF_F_RXHASH | NETIF_F_LRO |
			   NETIF_F_NTUPLE | NETIF_F_HW_TC | NETIF_F_RXALL |
			   NETIF_F_RXFCS;
	dev->features = offloads | NETIF_F_RXHASH | NETIF_F_HIGHDMA;
	dev->vlan_features = offloads | NETIF_F_HIGHDMA;
}

static void setup_priv(struct mlx5sim_priv *priv, struct net_device *dev,
		       struct mlx5sim_port *port)
{
	priv->dev = dev;
	priv->port = port;
	INIT_DELAYED_WORK(&priv->bounce_work, end_bounce);
	mlx5sim_ethtool_defaults(priv);
}

static int start_port(struct mlx5sim_priv *priv, struct net_device *lower)
{
	struct net_device *dev = priv->dev;
	int err;

	err = mlx5sim_set_queues(priv, priv->channels, MLX5SIM_MQPRIO_OFF);
	if (err)
		return err;
	netif_carrier_off(dev);
	err = register_netdevice(dev);
	if (err)
		return err;
	netdev_lockdep_set_classes(dev);
	err = attach_lower(priv, lower);
	if (err) {
		unregister_netdevice(dev);
		return err;
	}
	mlx5sim_dcb_start(priv);
	mlx5sim_cc_start(priv);
	priv->port->driver = &driver_ops;
	priv->port->priv = priv;
	return 0;
}

int mlx5sim_port_create(struct mlx5sim_port *port, struct device *parent)
{
	struct net_device *dev, *lower;
	int err = -ENODEV;

	dev = alloc_netdev_mqs(sizeof(struct mlx5sim_priv), port->name,
			       NET_NAME_USER, ether_setup, MLX5SIM_TXQS,
			       MLX5SIM_TXQS);
	if (!dev)
		return -ENOMEM;
	SET_NETDEV_DEV(dev, parent);
	rtnl_lock();
	lower = __dev_get_by_name(&init_net, port->lower_name);
	if (lower) {
		setup_netdev(dev, lower);
		setup_priv(netdev_priv(dev), dev, port);
		err = start_port(netdev_priv(dev), lower);
	}
	rtnl_unlock();
	if (err)
		free_netdev(dev);
	return err;
}

void mlx5sim_port_destroy(struct mlx5sim_port *port)
{
	struct mlx5sim_priv *priv = port->priv;

	if (!priv)		/* a reload could not bring it up again */
		return;
	rtnl_lock();
	port->priv = NULL;
	mlx5sim_cc_stop(priv);
	detach_lower(priv);
	unregister_netdevice(priv->dev);
	rtnl_unlock();
	cancel_delayed_work_sync(&priv->bounce_work);
	free_netdev(priv->dev);
}

/* The port behind a network device; NULL when it is not one of ours. */
struct mlx5sim_port *mlx5sim_netdev_port(const struct net_device *dev)
{
	if (dev->netdev_ops != &port_netdev_ops)
		return NULL;
	return ((struct mlx5sim_priv *)netdev_priv(dev))->port;
}
EXPORT_SYMBOL_GPL(mlx5sim_netdev_port);
