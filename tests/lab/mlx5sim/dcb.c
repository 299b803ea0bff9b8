// SPDX-License-Identifier: GPL-2.0
/*
 * DCB as mlx5 does it (en_dcbnl.c, en/port_buffer.c). All of it runs under
 * RTNL. There is no setapptrust: trust follows from the APP table.
 */
#include <linux/rtnetlink.h>

#include "mlx5sim.h"

#define MAX_CABLE_M		1000
#define MIN_BUFFER_MTU		9216U
#define RATE_100MB		100000ULL	/* kbit/s */
#define RATE_1GB		1000000ULL
#define RATE_UNITS		255ULL

/* --- ETS ---------------------------------------------------------------- */

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int i;

	ets->ets_cap = MLX5SIM_PRIOS;
	for (i = 0; i < MLX5SIM_PRIOS; i++) {
		ets->prio_tc[i] = priv->prio_tc[i];
		ets->tc_tsa[i] = priv->tc_tsa[i];
		if (priv->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS)
			ets->tc_tx_bw[i] = priv->tc_bw[i];
	}
	return 0;
}

static int check_ets(struct net_device *dev, const struct ieee_ets *ets)
{
	bool have_ets = false;
	int i, sum = 0;

	for (i = 0; i < MLX5SIM_PRIOS; i++) {
		if (ets->prio_tc[i] >= MLX5SIM_PRIOS) {
			netdev_err(dev, "Failed to validate ETS: priority value greater than max(%d)\n",
				   MLX5SIM_PRIOS);
			return -EINVAL;
		}
		switch (ets->tc_tsa[i]) {
		case IEEE_8021QAZ_TSA_CB_SHAPER:
			netdev_err(dev, "CB Shaper is not supported\n");
			return -EOPNOTSUPP;
		case IEEE_8021QAZ_TSA_ETS:
			have_ets = true;
			sum += ets->tc_tx_bw[i];
		}
	}
	if (have_ets && sum != 100) {
		netdev_err(dev, "Failed to validate ETS: BW sum is illegal\n");
		return -EINVAL;
	}
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_ETS, &err))
		return err;
	err = check_ets(dev, ets);
	if (err)
		return err;
	memcpy(priv->prio_tc, ets->prio_tc, sizeof(priv->prio_tc));
	memcpy(priv->tc_tsa, ets->tc_tsa, sizeof(priv->tc_tsa));
	memcpy(priv->tc_bw, ets->tc_tx_bw, sizeof(priv->tc_bw));
	return 0;
}

/* Each driver start brings the crossed map back: 0 to TC 1, 1 to TC 0. */
static void default_ets(struct mlx5sim_priv *priv)
{
	int i;

	for (i = 0; i < MLX5SIM_PRIOS; i++) {
		priv->prio_tc[i] = i < 2 ? !i : i;
		priv->tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
		priv->tc_bw[i] = 0;
	}
}

/* --- Port buffers ------------------------------------------------------- */

/* (301 + 2.16 * metres) * Gb/s + 2.72 * MTU, at least 40 Gb/s. */
static u32 xoff_bytes(const struct mlx5sim_priv *priv)
{
	u32 gbps = max(mlx5sim_speed / 1000, 40);
	u32 metres = priv->port->fw.cable_m;

	return (30100 + 216 * metres) * gbps / 100 + 272 * priv->dev->mtu / 100;
}

/* With global pause every priority is lossless. */
static u8 lossless_prios(const struct mlx5sim_fw *fw)
{
	return fw->rx_pause || fw->tx_pause ? 0xff : fw->pfc_en;
}

static bool buffer_lossless(const struct mlx5sim_fw *fw, const u8 *prio2buffer,
			    int buffer)
{
	u8 prios = lossless_prios(fw);
	int i;

	for (i = 0; i < MLX5SIM_PRIOS; i++)
		if (prio2buffer[i] == buffer && prios & BIT(i))
			return true;
	return false;
}

static int check_lossless(const struct mlx5sim_priv *priv, int buffer, u32 size)
{
	u32 room = max_t(u32, priv->dev->max_mtu, MIN_BUFFER_MTU);
	u32 need = xoff_bytes(priv) + room + MLX5SIM_CELL;

	if (!size) {
		netdev_err(priv->dev, "buffer[%d]: size is 0, but it is lossless\n",
			   buffer);
		return -EINVAL;
	}
	if (size < need) {
		netdev_err(priv->dev, "buffer[%d]: size %u, lossless needs %u\n",
			   buffer, size, need);
		return -ENOMEM;
	}
	return 0;
}

int mlx5sim_check_buffers(struct mlx5sim_priv *priv,
			  const u8 *prio2buffer, const u32 *size)
{
	const struct mlx5sim_fw *fw = &priv->port->fw;
	u64 sum = 0;
	int err, i;

	for (i = 0; i < MLX5SIM_BUFFERS; i++) {
		sum += size[i];
		if (!buffer_lossless(fw, prio2buffer, i))
			continue;
		err = check_lossless(priv, i, size[i]);
		if (err)
			return err;
	}
	if (sum > MLX5SIM_BUFFER_TOTAL) {
		netdev_err(priv->dev, "buffers of %llu bytes exceed %u\n",
			   sum, MLX5SIM_BUFFER_TOTAL);
		return -EINVAL;
	}
	return 0;
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	const struct mlx5sim_fw *fw = &priv->port->fw;

	memcpy(buffer->prio2buffer, fw->prio2buffer, sizeof(fw->prio2buffer));
	memcpy(buffer->buffer_size, fw->buffer_size, sizeof(fw->buffer_size));
	buffer->total_size = MLX5SIM_BUFFER_TOTAL;
	return 0;
}

static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	struct mlx5sim_fw *fw = &priv->port->fw;
	int err, i;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_BUFFER, &err))
		return err;
	if (!memcmp(buffer->prio2buffer, fw->prio2buffer,
		    sizeof(fw->prio2buffer)) &&
	    !memcmp(buffer->buffer_size, fw->buffer_size,
		    sizeof(fw->buffer_size)))
		return 0;
	for (i = 0; i < MLX5SIM_PRIOS; i++)
		if (buffer->prio2buffer[i] >= MLX5SIM_BUFFERS)
			return -EINVAL;
	/* From the first attempt on software owns the buffers. */
	fw->manual_buffer = true;
	err = mlx5sim_check_buffers(priv, buffer->prio2buffer,
				    buffer->buffer_size);
	if (err)
		return err;
	memcpy(fw->prio2buffer, buffer->prio2buffer, sizeof(fw->prio2buffer));
	/* The register counts cells. */
	for (i = 0; i < MLX5SIM_BUFFERS; i++)
		fw->buffer_size[i] = rounddown(buffer->buffer_size[i],
					       MLX5SIM_CELL);
	return 0;
}

/* --- PFC ---------------------------------------------------------------- */

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct mlx5sim_port *port = ((struct mlx5sim_priv *)netdev_priv(dev))->port;
	atomic64_t (*pause)[MLX5SIM_PAUSE_COUNTER_COUNT] = port->counters.pause;
	int i;

	pfc->pfc_cap = MLX5SIM_PRIOS;
	pfc->pfc_en = port->fw.pfc_en;
	pfc->delay = port->fw.cable_m;
	for (i = 0; i < MLX5SIM_PRIOS; i++) {
		pfc->requests[i] =
			atomic64_read(&pause[i][MLX5SIM_CF_tx_pause]);
		pfc->indications[i] =
			atomic64_read(&pause[i][MLX5SIM_CF_rx_pause]);
	}
	return 0;
}

/*
 * A new mask goes out in the register that also holds global pause, with
 * both pause bits 0, and then the link is toggled. The same mask is not
 * written at all. `delay` is the length of the cable in metres.
 */
static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	struct mlx5sim_fw *fw = &priv->port->fw;
	bool changed = false;
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_PFC, &err))
		return err;
	if (pfc->pfc_en != fw->pfc_en) {
		fw->pfc_en = pfc->pfc_en;
		fw->rx_pause = false;
		fw->tx_pause = false;
		mlx5sim_bounce_link(priv);
		changed = true;
	}
	if (pfc->delay && pfc->delay < MAX_CABLE_M &&
	    pfc->delay != fw->cable_m) {
		fw->cable_m = pfc->delay;
		changed = true;
	}
	if (!changed || !fw->manual_buffer)
		return 0;
	return mlx5sim_check_buffers(priv, fw->prio2buffer, fw->buffer_size);
}

/* --- Trust and the DSCP map --------------------------------------------- */

static void write_trust(struct mlx5sim_priv *priv, bool dscp)
{
	WRITE_ONCE(priv->port->fw.trust_dscp, dscp);
}

static void write_dscp(struct mlx5sim_priv *priv, u16 dscp, u8 prio)
{
	WRITE_ONCE(priv->port->fw.dscp2prio[dscp], prio);
}

static int check_app(const struct dcb_app *app)
{
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP ||
	    app->protocol >= MLX5SIM_DSCPS || app->priority >= MLX5SIM_PRIOS)
		return -EINVAL;
	return 0;
}

/* The first entry switches to trust dscp; an older pair is replaced. */
static int set_app(struct net_device *dev, struct dcb_app *app)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	struct dcb_app old = *app;
	bool is_new;
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_APP, &err))
		return err;
	err = check_app(app);
	if (err)
		return err;
	if (!priv->dscp_entries)
		write_trust(priv, true);
	old.priority = priv->port->fw.dscp2prio[app->protocol];
	write_dscp(priv, app->protocol, app->priority);
	is_new = dcb_ieee_delapp(dev, &old);
	err = dcb_ieee_setapp(dev, app);
	if (!err && is_new)
		priv->dscp_entries++;
	return err;
}

/*
 * A deleted DSCP goes to priority 0 and not back to DSCP>>3; the last one
 * switches back to trust pcp.
 */
static int del_app(struct net_device *dev, struct dcb_app *app)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_APP, &err))
		return err;
	err = check_app(app);
	if (err)
		return err;
	if (!priv->dscp_entries ||
	    app->priority != priv->port->fw.dscp2prio[app->protocol])
		return -ENOENT;
	err = dcb_ieee_delapp(dev, app);
	if (err)
		return err;
	write_dscp(priv, app->protocol, 0);
	if (!--priv->dscp_entries)
		write_trust(priv, false);
	return 0;
}

/* The driver finds trust dscp in the register: it publishes all 64 entries. */
static void publish_apps(struct mlx5sim_priv *priv)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };

	for (app.protocol = 0; app.protocol < MLX5SIM_DSCPS; app.protocol++) {
		app.priority = priv->port->fw.dscp2prio[app.protocol];
		if (!dcb_ieee_setapp(priv->dev, &app))
			priv->dscp_entries++;
	}
}

/* --- DCBX --------------------------------------------------------------- */

static u8 get_dcbx(struct net_device *dev)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	u8 mode = DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;

	return priv->port->fw.dcbx_host ? mode | DCB_CAP_DCBX_HOST : mode;
}

/* No flag at all hands DCBX to the firmware. 1 is this call's "refused". */
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	int err;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_DCBX, &err))
		return err ? 1 : 0;
	if (mode & DCB_CAP_DCBX_LLD_MANAGED)
		return 1;
	if (mode && !(mode & DCB_CAP_DCBX_HOST))
		return 1;
	priv->port->fw.dcbx_host = mode;
	return 0;
}

/* --- Maximum rates ------------------------------------------------------ */

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);

	memcpy(maxrate->tc_maxrate, priv->port->fw.maxrate,
	       sizeof(priv->port->fw.maxrate));
	return 0;
}

/* Steps of 100 Mb/s up to 25.5 Gb/s, then of 1 Gb/s up to 255 Gb/s. */
static int round_rate(u64 *kbps)
{
	u64 unit = RATE_100MB;

	if (!*kbps)
		return 0;
	if (*kbps > RATE_UNITS * RATE_1GB)
		return -EINVAL;
	if (*kbps > RATE_UNITS * RATE_100MB)
		unit = RATE_1GB;
	*kbps = max(div64_u64(*kbps, unit), 1ULL) * unit;
	return 0;
}

static int set_maxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	struct mlx5sim_priv *priv = netdev_priv(dev);
	u64 rates[MLX5SIM_PRIOS];
	int err, i;

	if (mlx5sim_broken(priv->port, MLX5SIM_SET_MAXRATE, &err))
		return err;
	memcpy(rates, maxrate->tc_maxrate, sizeof(rates));
	for (i = 0; i < MLX5SIM_PRIOS; i++) {
		err = round_rate(&rates[i]);
		if (err) {
			netdev_err(dev, "tc_%d maxrate %llu Kbps exceeds limit\n",
				   i, rates[i]);
			return err;
		}
	}
	memcpy(priv->port->fw.maxrate, rates, sizeof(rates));
	return 0;
}

const struct dcbnl_rtnl_ops mlx5sim_dcbnl_ops = {
	.ieee_getets		= get_ets,
	.ieee_setets		= set_ets,
	.ieee_getmaxrate	= get_maxrate,
	.ieee_setmaxrate	= set_maxrate,
	.ieee_getpfc		= get_pfc,
	.ieee_setpfc		= set_pfc,
	.ieee_setapp		= set_app,
	.ieee_delapp		= del_app,
	.getdcbx		= get_dcbx,
	.setdcbx		= set_dcbx,
	.dcbnl_getbuffer	= get_buffer,
	.dcbnl_setbuffer	= set_buffer,
};

/* When the driver starts; the network device has its index by now. */
void mlx5sim_dcb_start(struct mlx5sim_priv *priv)
{
	default_ets(priv);
	if (priv->port->fw.trust_dscp)
		publish_apps(priv);
}

/* OFED's file qos/trust: the same as all 64 entries, or none. */
int mlx5sim_set_trust(struct mlx5sim_priv *priv, bool dscp)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };
	int err;

	for (app.protocol = 0; app.protocol < MLX5SIM_DSCPS; app.protocol++) {
		app.priority = dscp ? app.protocol >> 3 :
			       priv->port->fw.dscp2prio[app.protocol];
		err = dscp ? set_app(priv->dev, &app) :
		      del_app(priv->dev, &app);
		if (err && err != -ENOENT)
			return err;
	}
	return 0;
}
