// SPDX-License-Identifier: GPL-2.0
/*
 * mqprio offload and the choice of a transmit queue, as mlx5 does them
 * (en_main.c, en/selq.c). As in that driver, TC_QUERY_CAPS is not answered:
 * queue counts are then left for us to check.
 */
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>

#include "mlx5sim.h"

/*
 * dcb mode has a set of queues for each TC. A card has enough of them for
 * any number of channels; here the number of queues is what it is.
 */
static u32 real_queues(u32 channels, enum mlx5sim_mqprio mode)
{
	if (mode == MLX5SIM_MQPRIO_DCB)
		channels *= MLX5SIM_PRIOS;
	return min_t(u32, channels, MLX5SIM_TXQS);
}

/* Each TC has all channels at offset 0: the driver has its own map. */
static void map_dcb_tcs(struct net_device *dev, u32 channels)
{
	int tc;

	netdev_set_num_tc(dev, MLX5SIM_PRIOS);
	for (tc = 0; tc < MLX5SIM_PRIOS; tc++)
		netdev_set_tc_queue(dev, tc, channels, 0);
}

int mlx5sim_set_queues(struct mlx5sim_priv *priv, u32 channels,
		       enum mlx5sim_mqprio mode)
{
	struct net_device *dev = priv->dev;
	int err;

	/* Before the number of queues, which would else reset the TCs. */
	if (mode == MLX5SIM_MQPRIO_DCB)
		map_dcb_tcs(dev, channels);
	else
		netdev_reset_tc(dev);
	err = netif_set_real_num_queues(dev, real_queues(channels, mode),
					channels);
	if (err)
		return err;
	priv->channels = channels;
	priv->mqprio = mode;
	return 0;
}

static int mqprio_off(struct mlx5sim_priv *priv)
{
	if (priv->mqprio == MLX5SIM_MQPRIO_OFF)
		return 0;
	return mlx5sim_set_queues(priv, priv->channels, MLX5SIM_MQPRIO_OFF);
}

/* 8 TCs or none; the queue ranges that the user gave are not looked at. */
static int mqprio_dcb(struct mlx5sim_priv *priv, struct tc_mqprio_qopt *qopt)
{
	if (!qopt->num_tc)
		return mqprio_off(priv);
	if (qopt->num_tc != MLX5SIM_PRIOS)
		return -EINVAL;
	return mlx5sim_set_queues(priv, priv->channels, MLX5SIM_MQPRIO_DCB);
}

static int check_channel(struct mlx5sim_priv *priv,
			 const struct tc_mqprio_qopt_offload *mqprio)
{
	const struct tc_mqprio_qopt *qopt = &mqprio->qopt;
	struct net_device *dev = priv->dev;
	u32 sum = 0;
	int tc;

	for (tc = 0; tc < qopt->num_tc; tc++) {
		if (!qopt->count[tc]) {
			netdev_err(dev, "Zero size for queue-group (%d) is not supported\n",
				   tc);
			return -EINVAL;
		}
		if (mqprio->min_rate[tc]) {
			netdev_err(dev, "Min tx rate is not supported\n");
			return -EINVAL;
		}
		if (qopt->offset[tc] != sum) {
			netdev_err(dev, "Discontinuous queues config is not supported\n");
			return -EINVAL;
		}
		sum += qopt->count[tc];
	}
	if (sum != priv->channels) {
		netdev_err(dev, "Num of queues (%d) does not match available (%d)\n",
			   sum, priv->channels);
		return -EINVAL;
	}
	return 0;
}

static int mqprio_channel(struct mlx5sim_priv *priv,
			  const struct tc_mqprio_qopt_offload *mqprio)
{
	const struct tc_mqprio_qopt *qopt = &mqprio->qopt;
	int err, tc;

	if (priv->flags & BIT(MLX5SIM_FLAG_TX_PORT_TS)) {
		netdev_err(priv->dev, "MQPRIO mode channel is not supported with tx_port_ts\n");
		return -EINVAL;
	}
	if (qopt->num_tc < 1 || qopt->num_tc > TC_QOPT_MAX_QUEUE)
		return -EINVAL;
	err = check_channel(priv, mqprio);
	if (err)
		return err;
	err = mlx5sim_set_queues(priv, priv->channels, MLX5SIM_MQPRIO_CHANNEL);
	if (err)
		return err;
	netdev_set_num_tc(priv->dev, qopt->num_tc);
	for (tc = 0; tc < qopt->num_tc; tc++)
		netdev_set_tc_queue(priv->dev, tc, qopt->count[tc],
				    qopt->offset[tc]);
	return 0;
}

static int setup_mqprio(struct mlx5sim_priv *priv,
			struct tc_mqprio_qopt_offload *mqprio)
{
	int err;

	/* A break must not keep a qdisc from going away. */
	if (mqprio->qopt.num_tc &&
	    mlx5sim_broken(priv->port, MLX5SIM_SET_MQPRIO, &err))
		return err;
	mqprio->qopt.hw = TC_MQPRIO_HW_OFFLOAD_TCS;
	switch (mqprio->mode) {
	case TC_MQPRIO_MODE_DCB:
		return mqprio_dcb(priv, &mqprio->qopt);
	case TC_MQPRIO_MODE_CHANNEL:
		return mqprio_channel(priv, mqprio);
	default:
		return -EOPNOTSUPP;
	}
}

int mlx5sim_setup_tc(struct net_device *dev, enum tc_setup_type type,
		     void *type_data)
{
	if (type == TC_SETUP_QDISC_MQPRIO)
		return setup_mqprio(netdev_priv(dev), type_data);
	return -EOPNOTSUPP;
}

/* In dcb mode the queue follows DSCP or PCP, not the skb's priority. */
u16 mlx5sim_select_queue(struct net_device *dev, struct sk_buff *skb,
			 struct net_device *sb_dev)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	u16 queue = netdev_pick_tx(dev, skb, sb_dev);
	u32 channels = priv->channels;

	if (priv->mqprio != MLX5SIM_MQPRIO_DCB)
		return queue;
	queue = queue % channels +
		mlx5sim_skb_prio(priv->port, skb, ETH_HLEN) * channels;
	return queue % dev->real_num_tx_queues;
}
