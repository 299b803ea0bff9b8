// SPDX-License-Identifier: GPL-2.0
/*
 * ECN and congestion control parameters, and OFED's trust file. A place for
 * the firmware's state, shown where the chosen flavour shows it:
 *   inbox  /sys/kernel/debug/mlx5/<bdf>/cc_params/ (mlx5_ib, cong.c)
 *   ofed   /sys/class/net/<if>/ecn/roce_{np,rp}/ and qos/trust
 * Nothing acts on the values: rxe knows neither ECN marks nor CNPs.
 */
#include <linux/debugfs.h>
#include <linux/kobject.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>

#include "mlx5sim.h"

#define DEBUGFS_DIR	"mlx5"		/* the real driver's, if it is there */
#define INBOX_WRITE	11		/* longer writes are refused */

struct cc_param {
	int side;
	const char *ofed;
	const char *inbox;
	u32 min;
	u32 max;
};

static const struct cc_param cc_params[] = {
#define PARAM(_side, _ofed, _inbox, _min, _max, _start)			\
	{ .side = MLX5SIM_CC_##_side, .ofed = _ofed, .inbox = _inbox,	\
	  .min = _min, .max = _max },
	MLX5SIM_CC_PARAMS(PARAM)
};

static const char * const side_dirs[MLX5SIM_CC_SIDES] = {
	[MLX5SIM_CC_RP] = "roce_rp",
	[MLX5SIM_CC_NP] = "roce_np",
};

static const char * const prio_files[MLX5SIM_PRIOS] = {
	"0", "1", "2", "3", "4", "5", "6", "7",
};

/* One file: of a parameter, or of a priority's switch on one side. */
struct cc_file {
	struct kobj_attribute attr;
	struct mlx5sim_port *port;
	int side;
	int index;
};

/* Order of tear-down: the last one made goes first. */
enum {
	DIR_ECN,
	DIR_RP,
	DIR_NP,
	DIR_RP_ENABLE,
	DIR_NP_ENABLE,
	DIR_QOS,
	DIRS
};

struct mlx5sim_cc {
	struct cc_file params[MLX5SIM_CC_PARAM_COUNT];
	struct cc_file enable[MLX5SIM_CC_SIDES][MLX5SIM_PRIOS];
	struct cc_file trust;
	struct kobject *dirs[DIRS];
};

static struct dentry *own_debugfs;	/* NULL while it is the real driver's */

/* --- The firmware's state ----------------------------------------------- */

static int find_param(const char *inbox)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(cc_params); i++)
		if (!strcmp(cc_params[i].inbox, inbox))
			return i;
	return -ENOENT;
}

static int set_param(struct mlx5sim_port *port, int i, u32 value)
{
	int err;

	if (mlx5sim_broken(port, MLX5SIM_SET_CC, &err))
		return err;
	if (value < cc_params[i].min || value > cc_params[i].max)
		return -EINVAL;
	WRITE_ONCE(port->fw.cc[i], value);
	/* A priority for CNPs takes the place of the mode that was there. */
	if (i == find_param("np_cnp_prio"))
		WRITE_ONCE(port->fw.cc[find_param("np_cnp_prio_mode")], 0);
	return 0;
}

/* --- inbox -------------------------------------------------------------- */

static ssize_t inbox_read(struct file *file, char __user *ubuf, size_t len,
			  loff_t *pos)
{
	struct cc_file *f = file->private_data;
	char text[16];
	int n;

	n = scnprintf(text, sizeof(text), "%u\n",
		      READ_ONCE(f->port->fw.cc[f->index]));
	return simple_read_from_buffer(ubuf, len, pos, text, n);
}

static ssize_t inbox_write(struct file *file, const char __user *ubuf,
			   size_t len, loff_t *pos)
{
	struct cc_file *f = file->private_data;
	u32 value;
	int err;

	if (len > INBOX_WRITE)
		return -EINVAL;
	err = kstrtou32_from_user(ubuf, len, 0, &value);
	if (!err)
		err = set_param(f->port, f->index, value);
	return err ?: len;
}

static const struct file_operations inbox_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = inbox_read,
	.write = inbox_write,
};

/* The real driver may own the directory; it may come and go meanwhile. */
static struct dentry *inbox_root(void)
{
	struct dentry *root = debugfs_lookup(DEBUGFS_DIR, NULL);

	if (root)
		return root;
	own_debugfs = debugfs_create_dir(DEBUGFS_DIR, NULL);
	return IS_ERR(own_debugfs) ? own_debugfs : dget(own_debugfs);
}

static void inbox_start(struct mlx5sim_priv *priv)
{
	struct dentry *root = inbox_root();
	struct dentry *dir;
	int i;

	if (IS_ERR(root))
		return;
	dir = debugfs_create_dir(priv->port->bdf, root);
	dir = debugfs_create_dir("cc_params", dir);
	for (i = 0; i < ARRAY_SIZE(cc_params); i++)
		debugfs_create_file(cc_params[i].inbox, 0600, dir,
				    &priv->cc->params[i], &inbox_fops);
	dput(root);
}

static void inbox_stop(struct mlx5sim_priv *priv)
{
	struct dentry *root = debugfs_lookup(DEBUGFS_DIR, NULL);

	if (!root)
		return;
	debugfs_lookup_and_remove(priv->port->bdf, root);
	dput(root);
}

void mlx5sim_cc_exit(void)
{
	debugfs_remove(own_debugfs);
}

/* --- ofed --------------------------------------------------------------- */

static struct cc_file *to_file(struct kobj_attribute *attr)
{
	return container_of(attr, struct cc_file, attr);
}

static ssize_t param_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	struct cc_file *f = to_file(attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(f->port->fw.cc[f->index]));
}

static ssize_t param_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t len)
{
	struct cc_file *f = to_file(attr);
	u32 value;
	int err = kstrtou32(buf, 0, &value);

	if (!err)
		err = set_param(f->port, f->index, value);
	return err ?: len;
}

static ssize_t enable_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	struct cc_file *f = to_file(attr);
	u8 mask = READ_ONCE(f->port->fw.cc_enable[f->side]);

	return sysfs_emit(buf, "%d\n", !!(mask & BIT(f->index)));
}

static ssize_t enable_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t len)
{
	struct cc_file *f = to_file(attr);
	u8 *mask = &f->port->fw.cc_enable[f->side];
	bool on;
	int err;

	if (mlx5sim_broken(f->port, MLX5SIM_SET_CC, &err))
		return err ?: len;
	err = kstrtobool(buf, &on);
	if (err)
		return err;
	WRITE_ONCE(*mask, on ? *mask | BIT(f->index) : *mask & ~BIT(f->index));
	return len;
}

static ssize_t trust_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	bool dscp = READ_ONCE(to_file(attr)->port->fw.trust_dscp);

	return sysfs_emit(buf, "%s\n", dscp ? "dscp" : "pcp");
}

static ssize_t trust_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t len)
{
	struct mlx5sim_port *port = to_file(attr)->port;
	bool dscp = sysfs_streq(buf, "dscp");
	int err = 0;

	if (!dscp && !sysfs_streq(buf, "pcp"))
		return -EINVAL;
	/* The file is removed under RTNL: waiting for it would not end. */
	if (!rtnl_trylock())
		return restart_syscall();
	if (port->priv && port->fw.trust_dscp != dscp)
		err = mlx5sim_set_trust(port->priv, dscp);
	rtnl_unlock();
	return err ?: len;
}

typedef ssize_t (*show_fn)(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf);
typedef ssize_t (*store_fn)(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t len);

static int add_file(struct kobject *dir, struct cc_file *f, const char *name,
		    show_fn show, store_fn store)
{
	sysfs_attr_init(&f->attr.attr);
	f->attr.attr.name = name;
	f->attr.attr.mode = 0644;
	f->attr.show = show;
	f->attr.store = store;
	return sysfs_create_file(dir, &f->attr.attr);
}

static int add_side(struct mlx5sim_cc *cc, int side)
{
	struct kobject *dir = cc->dirs[side == MLX5SIM_CC_RP ? DIR_RP : DIR_NP];
	struct kobject *enable = cc->dirs[side == MLX5SIM_CC_RP ?
					  DIR_RP_ENABLE : DIR_NP_ENABLE];
	int err = 0, i;

	for (i = 0; !err && i < ARRAY_SIZE(cc_params); i++)
		if (cc_params[i].side == side && cc_params[i].ofed)
			err = add_file(dir, &cc->params[i], cc_params[i].ofed,
				       param_show, param_store);
	for (i = 0; !err && i < MLX5SIM_PRIOS; i++)
		err = add_file(enable, &cc->enable[side][i], prio_files[i],
			       enable_show, enable_store);
	return err;
}

static int add_dirs(struct mlx5sim_cc *cc, struct kobject *netdev)
{
	struct kobject **d = cc->dirs;
	int i;

	d[DIR_ECN] = kobject_create_and_add("ecn", netdev);
	d[DIR_RP] = kobject_create_and_add(side_dirs[MLX5SIM_CC_RP],
					   d[DIR_ECN]);
	d[DIR_NP] = kobject_create_and_add(side_dirs[MLX5SIM_CC_NP],
					   d[DIR_ECN]);
	d[DIR_RP_ENABLE] = kobject_create_and_add("enable", d[DIR_RP]);
	d[DIR_NP_ENABLE] = kobject_create_and_add("enable", d[DIR_NP]);
	d[DIR_QOS] = kobject_create_and_add("qos", netdev);
	for (i = 0; i < DIRS; i++)
		if (!d[i])
			return -ENOMEM;
	return 0;
}

static int ofed_start(struct mlx5sim_priv *priv)
{
	struct mlx5sim_cc *cc = priv->cc;
	int err, side;

	err = add_dirs(cc, &priv->dev->dev.kobj);
	for (side = 0; !err && side < MLX5SIM_CC_SIDES; side++)
		err = add_side(cc, side);
	if (!err)
		err = add_file(cc->dirs[DIR_QOS], &cc->trust, "trust",
			       trust_show, trust_store);
	return err;
}

static void ofed_stop(struct mlx5sim_priv *priv)
{
	int i;

	for (i = DIRS - 1; i >= 0; i--)
		kobject_put(priv->cc->dirs[i]);
}

/* --- Both --------------------------------------------------------------- */

static void init_file(struct cc_file *f, struct mlx5sim_port *port, int side,
		      int index)
{
	f->port = port;
	f->side = side;
	f->index = index;
}

static void init_files(struct mlx5sim_cc *cc, struct mlx5sim_port *port)
{
	int i, side;

	for (i = 0; i < ARRAY_SIZE(cc_params); i++)
		init_file(&cc->params[i], port, cc_params[i].side, i);
	for (side = 0; side < MLX5SIM_CC_SIDES; side++)
		for (i = 0; i < MLX5SIM_PRIOS; i++)
			init_file(&cc->enable[side][i], port, side, i);
	init_file(&cc->trust, port, 0, 0);
}

/* A port does without these files rather than not exist. */
void mlx5sim_cc_start(struct mlx5sim_priv *priv)
{
	priv->cc = kzalloc(sizeof(*priv->cc), GFP_KERNEL);
	if (!priv->cc)
		return;
	init_files(priv->cc, priv->port);
	if (!priv->port->ofed)
		inbox_start(priv);
	else if (ofed_start(priv))
		netdev_warn(priv->dev, "ecn files cannot be created\n");
}

void mlx5sim_cc_stop(struct mlx5sim_priv *priv)
{
	if (!priv->cc)
		return;
	if (priv->port->ofed)
		ofed_stop(priv);
	else
		inbox_stop(priv);
	kfree(priv->cc);
	priv->cc = NULL;
}
