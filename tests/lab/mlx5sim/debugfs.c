// SPDX-License-Identifier: GPL-2.0
/*
 * Knobs for tests, files in /sys/kernel/debug/mlx5sim/<bdf>/.
 */
#include <linux/debugfs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "mlx5sim.h"

#define MAX_WRITE	1024

static struct dentry *root;

static const char * const setting_names[MLX5SIM_SETTINGS] = {
	[MLX5SIM_SET_ETS]	= "ets",
	[MLX5SIM_SET_PFC]	= "pfc",
	[MLX5SIM_SET_APP]	= "app",
	[MLX5SIM_SET_DCBX]	= "dcbx",
	[MLX5SIM_SET_MTU]	= "mtu",
	[MLX5SIM_SET_PAUSE]	= "pause",
	[MLX5SIM_SET_CHANNELS]	= "channels",
	[MLX5SIM_SET_RINGS]	= "rings",
	[MLX5SIM_SET_BUFFER]	= "buffer",
	[MLX5SIM_SET_MAXRATE]	= "maxrate",
	[MLX5SIM_SET_MQPRIO]	= "mqprio",
	[MLX5SIM_SET_FLAGS]	= "flags",
	[MLX5SIM_SET_COALESCE]	= "coalesce",
	[MLX5SIM_SET_CC]	= "cc",
	[MLX5SIM_SET_FEATURES]	= "features",
	[MLX5SIM_SET_DEVLINK]	= "devlink",
	[MLX5SIM_SET_PCI]	= "pci",
};

static const char * const fault_names[] = {
	[MLX5SIM_FAULT_NONE]	= "none",
	[MLX5SIM_FAULT_IGNORE]	= "ignore",
	[MLX5SIM_FAULT_REFUSE]	= "refuse",
};

/* Calls set() for each word of what was written. */
static ssize_t write_words(struct mlx5sim_port *port, const char __user *ubuf,
			   size_t len,
			   int (*set)(struct mlx5sim_port *port, char *word))
{
	char *text, *rest, *word;
	int err = 0;

	if (len > MAX_WRITE)
		return -E2BIG;
	text = memdup_user_nul(ubuf, len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = text;
	while (!err && (word = strsep(&rest, " \t\n")))
		if (*word)
			err = set(port, word);
	kfree(text);
	return err ?: len;
}

/* --- fault: setting=ignore|refuse|none ..., or none for all ------------- */

static int fault_show(struct seq_file *s, void *unused)
{
	struct mlx5sim_port *port = s->private;
	const char *sep = "";
	int i;

	for (i = 0; i < MLX5SIM_SETTINGS; i++) {
		if (!port->fault[i])
			continue;
		seq_printf(s, "%s%s=%s", sep, setting_names[i],
			   fault_names[port->fault[i]]);
		sep = " ";
	}
	seq_puts(s, *sep ? "\n" : "none\n");
	return 0;
}

static int set_fault(struct mlx5sim_port *port, char *word)
{
	char *name = strsep(&word, "=");
	int setting, fault;

	if (!word && !strcmp(name, "none")) {
		memset(port->fault, 0, sizeof(port->fault));
		return 0;
	}
	if (!word)
		return -EINVAL;
	setting = match_string(setting_names, ARRAY_SIZE(setting_names), name);
	fault = match_string(fault_names, ARRAY_SIZE(fault_names), word);
	if (setting < 0 || fault < 0)
		return -EINVAL;
	WRITE_ONCE(port->fault[setting], fault);
	return 0;
}

static ssize_t fault_write(struct file *file, const char __user *ubuf,
			   size_t len, loff_t *pos)
{
	struct seq_file *s = file->private_data;

	return write_words(s->private, ubuf, len, set_fault);
}
DEFINE_SHOW_STORE_ATTRIBUTE(fault);

/* --- carrier: 0 pulls the cable, 1 plugs it in -------------------------- */

static int carrier_show(struct seq_file *s, void *unused)
{
	struct mlx5sim_port *port = s->private;

	seq_printf(s, "%d\n", !port->cable_out);
	return 0;
}

static int set_carrier(struct mlx5sim_port *port, char *word)
{
	bool on;
	int err = kstrtobool(word, &on);

	if (err)
		return err;
	rtnl_lock();
	port->cable_out = !on;
	if (port->priv)
		port->driver->update_carrier(port->priv);
	rtnl_unlock();
	return 0;
}

static ssize_t carrier_write(struct file *file, const char __user *ubuf,
			     size_t len, loff_t *pos)
{
	struct seq_file *s = file->private_data;

	return write_words(s->private, ubuf, len, set_carrier);
}
DEFINE_SHOW_STORE_ATTRIBUTE(carrier);

/* --- counters: name=value ..., for what is made up ---------------------- */

static int set_counter(struct mlx5sim_port *port, char *word)
{
	char *name = strsep(&word, "=");
	atomic64_t *counter;
	u64 value;
	int err;

	if (!word)
		return -EINVAL;
	counter = mlx5sim_find_counter(port, name);
	if (!counter)
		return -ENOENT;
	err = kstrtou64(word, 0, &value);
	if (!err)
		atomic64_set(counter, value);
	return err;
}

static int counters_show(struct seq_file *s, void *unused)
{
	seq_puts(s, "write name=value, names as in ethtool -S\n");
	return 0;
}

static ssize_t counters_write(struct file *file, const char __user *ubuf,
			      size_t len, loff_t *pos)
{
	struct seq_file *s = file->private_data;

	return write_words(s->private, ubuf, len, set_counter);
}
DEFINE_SHOW_STORE_ATTRIBUTE(counters);

/* --- pcie_link: GT/s and lanes that were negotiated: 8 4 ---------------- */

static int pcie_link_show(struct seq_file *s, void *unused)
{
	seq_puts(s, "write GT/s (2, 5, 8, 16 or 32) and lanes: 8 4\n");
	return 0;
}

static ssize_t pcie_link_write(struct file *file, const char __user *ubuf,
			       size_t len, loff_t *pos)
{
	struct seq_file *s = file->private_data;
	char text[16] = "";
	int speed, width, err;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, ubuf, len))
		return -EFAULT;
	if (sscanf(text, "%d %d", &speed, &width) != 2)
		return -EINVAL;
	err = mlx5sim_pci_set_link(s->private, speed, width);
	return err ?: len;
}
DEFINE_SHOW_STORE_ATTRIBUTE(pcie_link);

/* --- fw_stored: a version that was burnt and waits for a reset ---------- */

static int fw_stored_show(struct seq_file *s, void *unused)
{
	struct mlx5sim_port *port = s->private;

	seq_printf(s, "%s\n", port->fw_stored);
	return 0;
}

static int set_fw_stored(struct mlx5sim_port *port, char *word)
{
	strscpy(port->fw_stored, word, sizeof(port->fw_stored));
	return 0;
}

static ssize_t fw_stored_write(struct file *file, const char __user *ubuf,
			       size_t len, loff_t *pos)
{
	struct seq_file *s = file->private_data;

	return write_words(s->private, ubuf, len, set_fw_stored);
}
DEFINE_SHOW_STORE_ATTRIBUTE(fw_stored);

void mlx5sim_debugfs_add(struct mlx5sim_port *port)
{
	port->debugfs = debugfs_create_dir(port->bdf, root);
	debugfs_create_file("fault", 0600, port->debugfs, port, &fault_fops);
	debugfs_create_file("carrier", 0600, port->debugfs, port,
			    &carrier_fops);
	debugfs_create_file("counters", 0600, port->debugfs, port,
			    &counters_fops);
	debugfs_create_file("pcie_link", 0600, port->debugfs, port,
			    &pcie_link_fops);
	debugfs_create_file("fw_stored", 0600, port->debugfs, port,
			    &fw_stored_fops);
}

void mlx5sim_debugfs_init(void)
{
	root = debugfs_create_dir("mlx5sim", NULL);
}

void mlx5sim_debugfs_exit(void)
{
	debugfs_remove(root);
}
