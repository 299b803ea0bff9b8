// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters, the devices named like PCI addresses, and their driver.
 *
 * A port exists while its lower device does: work in the background creates
 * it when a network device of that name appears and removes it afterwards.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rtnetlink.h>
#include <linux/topology.h>
#include <net/net_namespace.h>

#include "mlx5sim.h"

#define VENDOR_MELLANOX	0x15b3
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
MODULE_PARM_DESC(speed, "link speed in Mb/s that is reported");

unsigned int mlx5sim_bounce_ms = 500;
module_param_named(bounce_ms, mlx5sim_bounce_ms, uint, 0644);
MODULE_PARM_DESC(bounce_ms, "how long the link stays down when it is toggled");

static struct mlx5sim_port ports[MLX5SIM_MAX_PORTS];
static DEFINE_MUTEX(ports_mutex);
static bool stopping;			/* ports_mutex */

struct port_ref {
	struct mlx5sim_port *port;
};

static struct mlx5sim_port *to_port(struct device *dev)
{
	const struct port_ref *ref = dev_get_platdata(dev);

	return ref->port;
}

/*
 * The files of a PCI device that people read. numa_node is made here and not
 * by set_dev_node(), so that nodes that the virtual machine lacks can be told.
 */
#define CONST_ATTR(_name, _fmt, _value)					\
static ssize_t _name##_show(struct device *dev,				\
			    struct device_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, _fmt "\n", _value);			\
}									\
static DEVICE_ATTR_RO(_name)

CONST_ATTR(vendor, "0x%04x", VENDOR_MELLANOX);
CONST_ATTR(device, "0x%04x", device);
CONST_ATTR(subsystem_vendor, "0x%04x", VENDOR_MELLANOX);
CONST_ATTR(subsystem_device, "0x%04x", 0x0016);
CONST_ATTR(class, "0x%06x", 0x020000);
CONST_ATTR(revision, "0x%02x", 0);
CONST_ATTR(current_link_speed, "%s", "16.0 GT/s PCIe");
CONST_ATTR(max_link_speed, "%s", "16.0 GT/s PCIe");
CONST_ATTR(current_link_width, "%d", 16);
CONST_ATTR(max_link_width, "%d", 16);
CONST_ATTR(numa_node, "%d", to_port(dev)->numa);

static const struct cpumask *local_cpu_mask(struct device *dev)
{
	int node = to_port(dev)->numa;

	if (node >= 0 && node < MAX_NUMNODES && node_online(node))
		return cpumask_of_node(node);
	return cpu_online_mask;
}

static ssize_t local_cpulist_show(struct device *dev,
				  struct device_attribute *attr, char *buf)
{
	return cpumap_print_to_pagebuf(true, buf, local_cpu_mask(dev));
}
static DEVICE_ATTR_RO(local_cpulist);

static ssize_t local_cpus_show(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	return cpumap_print_to_pagebuf(false, buf, local_cpu_mask(dev));
}
static DEVICE_ATTR_RO(local_cpus);

static struct attribute *pci_attrs[] = {
	&dev_attr_vendor.attr,
	&dev_attr_device.attr,
	&dev_attr_subsystem_vendor.attr,
	&dev_attr_subsystem_device.attr,
	&dev_attr_class.attr,
	&dev_attr_revision.attr,
	&dev_attr_current_link_speed.attr,
	&dev_attr_max_link_speed.attr,
	&dev_attr_current_link_width.attr,
	&dev_attr_max_link_width.attr,
	&dev_attr_numa_node.attr,
	&dev_attr_local_cpulist.attr,
	&dev_attr_local_cpus.attr,
	NULL
};
ATTRIBUTE_GROUPS(pci);

/* As a PCI device announces itself; found in the file uevent. */
static int pci_uevent(const struct device *dev, struct kobj_uevent_env *env)
{
	return add_uevent_var(env, "PCI_ID=%04X:%04X", VENDOR_MELLANOX,
			      device) ?:
	       add_uevent_var(env, "PCI_SLOT_NAME=%s", dev_name(dev));
}

static const struct device_type pci_type = {
	.name = "mlx5sim",
	.groups = pci_groups,
	.uevent = pci_uevent,
};

static int driver_probe(struct platform_device *pdev)
{
	return mlx5sim_port_create(to_port(&pdev->dev), &pdev->dev);
}

static void driver_remove(struct platform_device *pdev)
{
	mlx5sim_port_destroy(to_port(&pdev->dev));
}

/* The names of our devices, which are not the driver's: see init_port(). */
static struct platform_device_id device_ids[MLX5SIM_MAX_PORTS + 1];

static struct platform_driver mlx5sim_driver = {
	.id_table = device_ids,
	.probe = driver_probe,
	.remove = driver_remove,
	.driver = {
		.name = MLX5SIM_DRIVER,
	},
};

static int device_add_port(struct mlx5sim_port *port)
{
	struct port_ref ref = { .port = port };
	struct platform_device *pdev;
	int err;

	pdev = platform_device_alloc(port->bdf, PLATFORM_DEVID_NONE);
	if (!pdev)
		return -ENOMEM;
	pdev->dev.type = &pci_type;
	err = platform_device_add_data(pdev, &ref, sizeof(ref));
	if (!err)
		err = platform_device_add(pdev);
	if (err) {
		platform_device_put(pdev);
		return err;
	}
	port->pdev = pdev;
	return 0;
}

static void device_del_port(struct mlx5sim_port *port)
{
	if (port->pdev)
		platform_device_unregister(port->pdev);
	port->pdev = NULL;
}

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
		device_del_port(port);
	if (port->pdev || !lower_exists(port))
		return;
	err = device_add_port(port);
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
	mlx5sim_lower_event(port, event);
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
	mlx5sim_cc_defaults(fw);
}

static int check_parameters(void)
{
	if (!lower_count || name_count != lower_count ||
	    bdf_count != lower_count) {
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

static void init_port(int i)
{
	struct mlx5sim_port *port = &ports[i];

	port->index = i;
	port->lower_name = lower[i];
	port->name = name[i];
	port->bdf = bdf[i];
	port->numa = numa[i];
	port->ofed = !strcmp(flavour, "ofed");
	strscpy(device_ids[i].name, port->bdf, sizeof(device_ids[i].name));
	firmware_defaults(&port->fw, !strcmp(trust, "dscp"));
	mlx5sim_debugfs_add(port);
	if (!lower_exists(port))
		pr_warn("%s: waiting for %s\n", port->bdf, port->lower_name);
}

static int __init mlx5sim_init(void)
{
	int err, i;

	err = check_parameters();
	if (err)
		return err;
	mlx5sim_debugfs_init();
	for (i = 0; i < lower_count; i++)
		init_port(i);
	err = platform_driver_register(&mlx5sim_driver);
	if (err)
		goto err_debugfs;
	err = register_netdevice_notifier(&netdev_notifier);
	if (err)
		goto err_driver;
	/* The ports are there when modprobe returns. */
	schedule_work(&sync_work);
	flush_work(&sync_work);
	return 0;

err_driver:
	platform_driver_unregister(&mlx5sim_driver);
err_debugfs:
	mlx5sim_cc_exit();
	mlx5sim_debugfs_exit();
	return err;
}

static void __exit mlx5sim_exit(void)
{
	int i;

	mutex_lock(&ports_mutex);
	stopping = true;
	mutex_unlock(&ports_mutex);
	/* Also tells us that each lower device goes: the ports let go of it. */
	unregister_netdevice_notifier(&netdev_notifier);
	cancel_work_sync(&sync_work);
	for (i = 0; i < lower_count; i++)
		device_del_port(&ports[i]);
	platform_driver_unregister(&mlx5sim_driver);
	mlx5sim_cc_exit();
	mlx5sim_debugfs_exit();
}

module_init(mlx5sim_init);
module_exit(mlx5sim_exit);

MODULE_DESCRIPTION("mlx5 ports simulated on top of other network devices");
MODULE_LICENSE("GPL");
/* udev loads the real driver for a port of ours: it names its debugfs first. */
MODULE_SOFTDEP("pre: mlx5_core");
