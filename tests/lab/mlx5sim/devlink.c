// SPDX-License-Identifier: GPL-2.0
/*
 * devlink: versions, parameters, health and reload, as mlx5 has them.
 */
#include <linux/pci.h>
#include <net/devlink.h>

#include "mlx5sim.h"

#define MIN_EQ_SIZE	64
#define MAX_EQ_SIZE	4096
#define GRACE_MS	1200000

struct card {
	struct mlx5sim_port *port;
	struct pci_dev *pdev;
	struct devlink_health_reporter *fw_reporter;
	char steering[8];
};

enum {
	PARAM_FLOW_STEERING_MODE = DEVLINK_PARAM_GENERIC_ID_MAX + 1,
};

/* --- Versions ----------------------------------------------------------- */

static int put_versions(struct card *card, struct devlink_info_req *req)
{
	const char *stored = card->port->fw_stored;

	return devlink_info_version_fixed_put(req, "fw.psid", MLX5SIM_PSID) ?:
	       devlink_info_version_running_put(req, "fw.version",
						MLX5SIM_FIRMWARE) ?:
	       devlink_info_version_running_put(req, "fw", MLX5SIM_FIRMWARE) ?:
	       devlink_info_version_stored_put(req, "fw.version", stored) ?:
	       devlink_info_version_stored_put(req, "fw", stored);
}

static int info_get(struct devlink *devlink, struct devlink_info_req *req,
		    struct netlink_ext_ack *extack)
{
	struct card *card = devlink_priv(devlink);
	char serial[16];

	snprintf(serial, sizeof(serial), "MT2143X%05d", card->port->index + 1);
	return devlink_info_serial_number_put(req, serial) ?:
	       devlink_info_board_serial_number_put(req, serial) ?:
	       put_versions(card, req);
}

/* --- Parameters --------------------------------------------------------- */

static int check_eq_size(struct devlink *devlink, u32 id,
			 union devlink_param_value val,
			 struct netlink_ext_ack *extack)
{
	return val.vu32 < MIN_EQ_SIZE || val.vu32 > MAX_EQ_SIZE ? -EINVAL : 0;
}

static int steering_get(struct devlink *devlink, u32 id,
			struct devlink_param_gset_ctx *ctx)
{
	struct card *card = devlink_priv(devlink);

	strscpy(ctx->val.vstr, card->steering, sizeof(ctx->val.vstr));
	return 0;
}

static int steering_set(struct devlink *devlink, u32 id,
			struct devlink_param_gset_ctx *ctx,
			struct netlink_ext_ack *extack)
{
	struct card *card = devlink_priv(devlink);
	int err;

	if (mlx5sim_broken(card->port, MLX5SIM_SET_DEVLINK, &err))
		return err;
	strscpy(card->steering, ctx->val.vstr, sizeof(card->steering));
	return 0;
}

static int steering_check(struct devlink *devlink, u32 id,
			  union devlink_param_value val,
			  struct netlink_ext_ack *extack)
{
	if (!strcmp(val.vstr, "dmfs") || !strcmp(val.vstr, "smfs") ||
	    !strcmp(val.vstr, "hmfs"))
		return 0;
	NL_SET_ERR_MSG_MOD(extack, "Bad parameter: supported values are [\"dmfs\", \"smfs\", \"hmfs\"]");
	return -EINVAL;
}

static int roce_check(struct devlink *devlink, u32 id,
		      union devlink_param_value val,
		      struct netlink_ext_ack *extack)
{
	struct card *card = devlink_priv(devlink);
	int err;

	/* The value is the core's to keep: it can be refused, not ignored. */
	mlx5sim_broken(card->port, MLX5SIM_SET_DEVLINK, &err);
	return err;
}

static const struct devlink_param params[] = {
	DEVLINK_PARAM_DRIVER(PARAM_FLOW_STEERING_MODE, "flow_steering_mode",
			     DEVLINK_PARAM_TYPE_STRING,
			     BIT(DEVLINK_PARAM_CMODE_RUNTIME), steering_get,
			     steering_set, steering_check),
	DEVLINK_PARAM_GENERIC(ENABLE_ROCE, BIT(DEVLINK_PARAM_CMODE_DRIVERINIT),
			      NULL, NULL, roce_check),
	DEVLINK_PARAM_GENERIC(IO_EQ_SIZE, BIT(DEVLINK_PARAM_CMODE_DRIVERINIT),
			      NULL, NULL, check_eq_size),
	DEVLINK_PARAM_GENERIC(EVENT_EQ_SIZE,
			      BIT(DEVLINK_PARAM_CMODE_DRIVERINIT), NULL, NULL,
			      check_eq_size),
};

static void param_defaults(struct devlink *devlink)
{
	union devlink_param_value value = { .vbool = true };

	devl_param_driverinit_value_set(devlink,
					DEVLINK_PARAM_GENERIC_ID_ENABLE_ROCE,
					value);
	value = (union devlink_param_value) { .vu32 = 1024 };
	devl_param_driverinit_value_set(devlink,
					DEVLINK_PARAM_GENERIC_ID_IO_EQ_SIZE,
					value);
	value.vu32 = MAX_EQ_SIZE;
	devl_param_driverinit_value_set(devlink,
					DEVLINK_PARAM_GENERIC_ID_EVENT_EQ_SIZE,
					value);
}

/* --- Reload: the network device goes and comes back --------------------- */

static int reload_down(struct devlink *devlink, bool netns_change,
		       enum devlink_reload_action action,
		       enum devlink_reload_limit limit,
		       struct netlink_ext_ack *extack)
{
	struct card *card = devlink_priv(devlink);

	if (netns_change) {
		NL_SET_ERR_MSG_MOD(extack, "other network namespaces are not simulated");
		return -EOPNOTSUPP;
	}
	mlx5sim_port_destroy(card->port);
	return 0;
}

static int reload_up(struct devlink *devlink, enum devlink_reload_action action,
		     enum devlink_reload_limit limit, u32 *actions_performed,
		     struct netlink_ext_ack *extack)
{
	struct card *card = devlink_priv(devlink);

	*actions_performed = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	return mlx5sim_port_create(card->port, &card->pdev->dev);
}

/* --- E-switch, as a port without virtual functions has it --------------- */

static int eswitch_mode_get(struct devlink *devlink, u16 *mode)
{
	*mode = DEVLINK_ESWITCH_MODE_LEGACY;
	return 0;
}

static int eswitch_inline_mode_get(struct devlink *devlink, u8 *mode)
{
	*mode = DEVLINK_ESWITCH_INLINE_MODE_NONE;
	return 0;
}

static int eswitch_encap_mode_get(struct devlink *devlink,
				  enum devlink_eswitch_encap_mode *mode)
{
	*mode = DEVLINK_ESWITCH_ENCAP_MODE_BASIC;
	return 0;
}

static const struct devlink_ops ops = {
	.info_get		= info_get,
	.reload_actions		= BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT),
	.reload_down		= reload_down,
	.reload_up		= reload_up,
	.eswitch_mode_get	= eswitch_mode_get,
	.eswitch_inline_mode_get = eswitch_inline_mode_get,
	.eswitch_encap_mode_get	= eswitch_encap_mode_get,
};

/* --- Life --------------------------------------------------------------- */

static int no_recovery(struct devlink_health_reporter *reporter, void *context,
		       struct netlink_ext_ack *extack)
{
	return 0;
}

static const struct devlink_health_reporter_ops fw_reporter_ops = {
	.name = "fw",
	.recover = no_recovery,
};

static int start(struct devlink *devlink, struct card *card)
{
	int err = devl_params_register(devlink, params, ARRAY_SIZE(params));

	if (err)
		return err;
	param_defaults(devlink);
	card->fw_reporter = devl_health_reporter_create(devlink,
							&fw_reporter_ops,
							GRACE_MS, card);
	if (IS_ERR(card->fw_reporter)) {
		devl_params_unregister(devlink, params, ARRAY_SIZE(params));
		return PTR_ERR(card->fw_reporter);
	}
	devl_register(devlink);
	return 0;
}

struct devlink *mlx5sim_devlink_add(struct mlx5sim_port *port,
				    struct pci_dev *pdev)
{
	struct devlink *devlink = devlink_alloc(&ops, sizeof(struct card),
						&pdev->dev);
	struct card *card;
	int err;

	if (!devlink)
		return ERR_PTR(-ENOMEM);
	card = devlink_priv(devlink);
	card->port = port;
	card->pdev = pdev;
	strscpy(card->steering, "dmfs", sizeof(card->steering));
	devl_lock(devlink);
	err = start(devlink, card);
	devl_unlock(devlink);
	if (!err)
		return devlink;
	devlink_free(devlink);
	return ERR_PTR(err);
}

void mlx5sim_devlink_del(struct devlink *devlink)
{
	struct card *card = devlink_priv(devlink);

	devl_lock(devlink);
	devl_unregister(devlink);
	devl_health_reporter_destroy(card->fw_reporter);
	devl_params_unregister(devlink, params, ARRAY_SIZE(params));
	devl_unlock(devlink);
	devlink_free(devlink);
}
