// SPDX-License-Identifier: GPL-2.0
/*
 * mlx5_ib: OFED's file tc/<port>/traffic_class of an RDMA device, for rxe
 * devices on ports of mlx5sim. A module of its own, so that the ports need no
 * RDMA. The value is kept and shown; rxe does not act on it.
 */
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <rdma/ib_verbs.h>

#include "mlx5sim.h"

#define PORT	1

struct tc_dir {
	struct kobj_attribute attr;
	struct kobject *tc;
	struct kobject *port;
	int value;			/* -1 = not forced */
};

static struct ib_client client;

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

static bool is_ofed_port(struct ib_device *ibdev)
{
	struct net_device *dev = ib_device_get_netdev(ibdev, PORT);
	struct mlx5sim_port *port = dev ? mlx5sim_netdev_port(dev) : NULL;

	dev_put(dev);
	return port && port->ofed;
}

static void free_dir(struct tc_dir *dir)
{
	kobject_put(dir->port);
	kobject_put(dir->tc);
	kfree(dir);
}

static int make_dir(struct tc_dir *dir, struct ib_device *ibdev)
{
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

static int add_device(struct ib_device *ibdev)
{
	struct tc_dir *dir;
	int err;

	if (!is_ofed_port(ibdev))
		return -EOPNOTSUPP;
	dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	if (!dir)
		return -ENOMEM;
	dir->value = -1;
	err = make_dir(dir, ibdev);
	if (err) {
		free_dir(dir);
		return err;
	}
	ib_set_client_data(ibdev, &client, dir);
	return 0;
}

static void remove_device(struct ib_device *ibdev, void *data)
{
	free_dir(data);
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

MODULE_DESCRIPTION("traffic_class file of RDMA devices on mlx5sim ports");
MODULE_LICENSE("GPL");
