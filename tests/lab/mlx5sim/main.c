// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters, and cards that come and go.
 *
 * A card exists while its lower device does: work in the background plugs it
 * in when a network device of that name appears and pulls it out afterwards.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>

#include "mlx5sim.h"

#define FIRMWARE_CABLE_M	7
#define FIRMWARE_BUFFER0	(2047 * MLX5SIM_CELL)

static char *lower[MLX5SIM_MAX_PORTS];
static int lower_count;
module_param_array(lower, charp, &lower_count, 0444);
MODULE_PARM_DESC(lower, "network devices to stack the ports on");

static char *name[MLX5SIM_MAX_PORTS];
static int name_count;
module_param_array(name, charp, &name_count, 0444);
MODULE_PARM_DESC(name, "names of the ports");

static char *bdf[MLX5SIM_MAX_PORTS];
static int bdf_count;
module_param_array(bdf, charp, &bdf_count, 0444);
MODULE_PARM_DESC(bdf, "PCI addresses of the ports");

static int numa[MLX5SIM_MAX_PORTS] = { [0 ... MLX5SIM_MAX_PORTS - 1] = -1 };
module_param_array(numa, int, NULL, 0444);
MODULE_PARM_DESC(numa, "NUMA nodes of the ports (-1 = not known)");

static int gpu[MLX5SIM_MAX_PORTS];
module_param_array(gpu, int, NULL, 0444);
MODULE_PARM_DESC(gpu, "1 = a GPU sits beside the port");

static char *flavour = "inbox";
module_param(flavour, charp, 0444);
MODULE_PARM_DESC(flavour, "driver stack to look like: inbox or ofed");

static char *trust = "pcp";
module_param(trust, charp, 0444);
MODULE_PARM_DESC(trust, "trust state that the firmware starts with: pcp or dscp");

static int device = 0x101b;
module_param(device, int, 0444);
MODULE_PARM_DESC(device, "PCI device id");

int mlx5sim_speed = 200000;
module_param_named(speed, mlx5sim_speed, int, 0444);
EXPORT_SYMBOL_GPL(mlx5sim_speed);
MODULE_PARM_DESC(speed, "link speed in Mb/s that is reported");

unsigned int mlx5sim_bounce_ms = 500;
module_param_named(bounce_ms, mlx5sim_bounce_ms, uint, 0644);
EXPORT_SYMBOL_GPL(mlx5sim_bounce_ms);
MODULE_PARM_DESC(bounce_ms, "how long the link stays down when it is toggled");

static struct mlx5sim_port ports[MLX5SIM_MAX_PORTS];
static DEFINE_MUTEX(ports_mutex);
static bool stopping;			/* ports_mutex */

static bool lower_exists(const struct mlx5sim_port *port)
{
	struct net_device *dev = dev_get_by_name(&init_net, port->lower_name);

	dev_put(dev);
	return dev;
}

static void sync_port(struct mlx5sim_port *port)
{
	int err;

	if (xchg(&port->lower_gone, false))
		mlx5sim_pci_del(port);
	if (port->root || !lower_exists(port))
		return;
	err = mlx5sim_pci_add(port);
	if (err)
		pr_err("%s: cannot be created: %pe\n", port->bdf, ERR_PTR(err));
}

static void sync_ports(struct work_struct *work)
{
	int i;

	mutex_lock(&ports_mutex);
	for (i = 0; i < lower_count && !stopping; i++)
		sync_port(&ports[i]);
	mutex_unlock(&ports_mutex);
}
static DECLARE_WORK(sync_work, sync_ports);

static void lower_changed(struct mlx5sim_port *port, struct net_device *dev,
			  unsigned long event)
{
	switch (event) {
	case NETDEV_REGISTER:
	case NETDEV_CHANGENAME:
		/* Not created here: that takes RTNL, which we hold. */
		if (!strcmp(dev->name, port->lower_name))
			schedule_work(&sync_work);
		return;
	}
	if (!port->priv || rtnl_dereference(port->priv->lower) != dev)
		return;
	port->driver->lower_event(port, event);
	if (event == NETDEV_UNREGISTER) {
		WRITE_ONCE(port->lower_gone, true);
		schedule_work(&sync_work);
	}
}

static int netdev_event(struct notifier_block *nb, unsigned long event,
			void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	int i;

	if (net_eq(dev_net(dev), &init_net))
		for (i = 0; i < lower_count; i++)
			lower_changed(&ports[i], dev, event);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = {
	.notifier_call = netdev_event,
};

static const u32 cc_starts[] = {
#define CC_START(_side, _ofed, _inbox, _min, _max, _start) _start,
	MLX5SIM_CC_PARAMS(CC_START)
};

/* What the firmware of a new card says. */
static void firmware_defaults(struct mlx5sim_fw *fw, bool trust_dscp)
{
	int i;

	fw->trust_dscp = trust_dscp;
	fw->rx_pause = true;
	fw->tx_pause = true;
	fw->cable_m = FIRMWARE_CABLE_M;
	fw->buffer_size[0] = FIRMWARE_BUFFER0;
	for (i = 0; i < MLX5SIM_DSCPS; i++)
		fw->dscp2prio[i] = i >> 3;
	memcpy(fw->cc, cc_starts, sizeof(fw->cc));
	memset(fw->cc_enable, 0xff, sizeof(fw->cc_enable));
}

static int check_parameters(void)
{
	if (name_count != lower_count || bdf_count != lower_count) {
		pr_err("lower, name and bdf must have as many elements each\n");
		return -EINVAL;
	}
	if (strcmp(flavour, "inbox") && strcmp(flavour, "ofed")) {
		pr_err("flavour is inbox or ofed\n");
		return -EINVAL;
	}
	if (strcmp(trust, "pcp") && strcmp(trust, "dscp")) {
		pr_err("trust is pcp or dscp\n");
		return -EINVAL;
	}
	return 0;
}

static int init_port(int i)
{
	struct mlx5sim_port *port = &ports[i];

	port->index = i;
	port->lower_name = lower[i];
	port->name = name[i];
	port->bdf = bdf[i];
	port->numa = numa[i];
	port->gpu = gpu[i];
	port->ofed = !strcmp(flavour, "ofed");
	strscpy(port->fw_stored, MLX5SIM_FIRMWARE, sizeof(port->fw_stored));
	firmware_defaults(&port->fw, !strcmp(trust, "dscp"));
	mlx5sim_debugfs_add(port);
	if (!lower_exists(port))
		pr_warn("%s: waiting for %s\n", port->bdf, port->lower_name);
	return mlx5sim_pci_init(port, device);
}

static int __init mlx5sim_init(void)
{
	int err, i;

	err = check_parameters();
	if (err)
		return err;
	mlx5sim_debugfs_init();
	for (i = 0; i < lower_count && !err; i++)
		err = init_port(i);
	if (!err)
		err = register_netdevice_notifier(&netdev_notifier);
	if (err) {
		mlx5sim_debugfs_exit();
		return err;
	}
	/* The cards are there when modprobe returns. */
	schedule_work(&sync_work);
	flush_work(&sync_work);
	return 0;
}

/* The driver depends on this module: it is gone by now. */
static void __exit mlx5sim_exit(void)
{
	int i;

	mutex_lock(&ports_mutex);
	stopping = true;
	mutex_unlock(&ports_mutex);
	unregister_netdevice_notifier(&netdev_notifier);
	cancel_work_sync(&sync_work);
	for (i = 0; i < lower_count; i++)
		mlx5sim_pci_del(&ports[i]);
	mlx5sim_debugfs_exit();
}

module_init(mlx5sim_init);
module_exit(mlx5sim_exit);

MODULE_DESCRIPTION("mlx5 cards simulated on top of other network devices");
MODULE_LICENSE("GPL");
