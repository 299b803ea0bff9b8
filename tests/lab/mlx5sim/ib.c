// SPDX-License-Identifier: GPL-2.0
/*
 * mlx5_ib: what RDMA devices of mlx5 have and rxe devices on ports of mlx5sim
 * lack: the hw_counters by mlx5's names, and OFED's file tc/1/traffic_class.
 * A module of its own, so that the ports need no RDMA. A traffic class is
 * kept and shown; rxe does not act on it.
 */
#include <linux/kernfs.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <rdma/ib_sysfs.h>
#include <rdma/ib_verbs.h>

#include "mlx5sim.h"

#define PORT	1

#define COUNTERS	"hw_counters"

struct tc_dir {
	struct kobj_attribute attr;
	struct kobject *tc;
	struct kobject *port;
	int value;			/* -1 = not forced */
};

struct counter_file {
	struct ib_port_attribute attr;
	atomic64_t *value;
};

/* What is added to one RDMA device. */
struct extras {
	struct tc_dir dir;		/* OFED only */
	struct kobject *port;
	struct counter_file counters[MLX5SIM_RDMA_COUNTER_COUNT];
};

/* --- traffic_class ------------------------------------------------------ */

static ssize_t traffic_class_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	int value = READ_ONCE(container_of(attr, struct tc_dir, attr)->value);

	return value < 0 ? 0 : sysfs_emit(buf, "Global tclass=%d\n", value);
}

static ssize_t traffic_class_store(struct kobject *kobj,
				   struct kobj_attribute *attr,
				   const char *buf, size_t len)
{
	int value, err = kstrtoint(buf, 0, &value);

	if (err)
		return err;
	if (value < -1 || value > 255)
		return -EINVAL;
	WRITE_ONCE(container_of(attr, struct tc_dir, attr)->value, value);
	return len;
}

static void del_dir(struct tc_dir *dir)
{
	kobject_put(dir->port);
	kobject_put(dir->tc);
}

static int make_dir(struct tc_dir *dir, struct ib_device *ibdev)
{
	dir->value = -1;
	dir->tc = kobject_create_and_add("tc", &ibdev->dev.kobj);
	if (!dir->tc)
		return -ENOMEM;
	dir->port = kobject_create_and_add(__stringify(PORT), dir->tc);
	if (!dir->port)
		return -ENOMEM;
	sysfs_attr_init(&dir->attr.attr);
	dir->attr.attr.name = "traffic_class";
	dir->attr.attr.mode = 0644;
	dir->attr.show = traffic_class_show;
	dir->attr.store = traffic_class_store;
	return sysfs_create_file(dir->port, &dir->attr.attr);
}

/* --- hw_counters -------------------------------------------------------- */

static ssize_t counter_show(struct ib_device *ibdev, u32 port_num,
			    struct ib_port_attribute *attr, char *buf)
{
	struct counter_file *f = container_of(attr, struct counter_file, attr);

	return sysfs_emit(buf, "%lld\n", atomic64_read(f->value));
}

/* The folder ports/1, whose object is the RDMA core's own. */
static struct kobject *find_port_folder(struct ib_device *ibdev)
{
	struct kobject *ports = ibdev->coredev.ports_kobj;
	struct kernfs_node *kn = kernfs_find_and_get(ports->sd,
						     __stringify(PORT));
	struct kobject *found = kn ? kn->priv : NULL;

	kernfs_put(kn);
	return found;
}

static void add_counters(struct extras *extras, struct mlx5sim_port *port,
			 struct ib_device *ibdev)
{
	struct counter_file *f = extras->counters;
	int i;

	extras->port = find_port_folder(ibdev);
	for (i = 0; extras->port && i < MLX5SIM_RDMA_COUNTER_COUNT; i++) {
		f[i].value = &port->counters.rdma[i];
		f[i].attr.show = counter_show;
		sysfs_attr_init(&f[i].attr.attr);
		f[i].attr.attr.name = mlx5sim_rdma_counter_names[i];
		f[i].attr.attr.mode = 0444;
		if (sysfs_add_file_to_group(extras->port, &f[i].attr.attr,
					    COUNTERS))
			dev_warn(&ibdev->dev, "no counter %s\n",
				 f[i].attr.attr.name);
	}
}

static void del_counters(struct extras *extras)
{
	int i;

	for (i = 0; extras->port && i < MLX5SIM_RDMA_COUNTER_COUNT; i++)
		sysfs_remove_file_from_group(extras->port,
					     &extras->counters[i].attr.attr,
					     COUNTERS);
}

/* --- RDMA devices come and go ------------------------------------------- */

static struct ib_client client;

static struct mlx5sim_port *find_port(struct ib_device *ibdev)
{
	struct net_device *dev = ib_device_get_netdev(ibdev, PORT);
	struct mlx5sim_port *port = dev ? mlx5sim_netdev_port(dev) : NULL;

	dev_put(dev);
	return port;
}

static int add_device(struct ib_device *ibdev)
{
	struct mlx5sim_port *port = find_port(ibdev);
	struct extras *extras;
	int err = 0;

	if (!port)
		return -EOPNOTSUPP;
	extras = kzalloc(sizeof(*extras), GFP_KERNEL);
	if (!extras)
		return -ENOMEM;
	if (port->ofed)
		err = make_dir(&extras->dir, ibdev);
	if (err) {
		del_dir(&extras->dir);
		kfree(extras);
		return err;
	}
	add_counters(extras, port, ibdev);
	ib_set_client_data(ibdev, &client, extras);
	return 0;
}

static void remove_device(struct ib_device *ibdev, void *data)
{
	struct extras *extras = data;

	del_counters(extras);
	del_dir(&extras->dir);
	kfree(extras);
}

static struct ib_client client = {
	.name = "mlx5_ib",
	.add = add_device,
	.remove = remove_device,
};

static int __init mlx5_ib_init(void)
{
	return ib_register_client(&client);
}

static void __exit mlx5_ib_exit(void)
{
	ib_unregister_client(&client);
}

module_init(mlx5_ib_init);
module_exit(mlx5_ib_exit);

MODULE_DESCRIPTION("counters and traffic class of RDMA devices on simulated mlx5 cards");
MODULE_LICENSE("GPL");
