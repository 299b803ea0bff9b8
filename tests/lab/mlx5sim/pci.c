// SPDX-License-Identifier: GPL-2.0
/*
 * The PCI functions of a card: a host bridge of its own with a root port, and
 * the card below; with a GPU, a second root port and the GPU below that. All
 * of it is a configuration space in memory, without BARs or MSI: the
 * kernel, lspci and setpci find real PCI Express functions.
 */
#include <linux/export.h>
#include <linux/pci.h>
#include <linux/unaligned.h>

#include "mlx5sim.h"

#define VENDOR_QEMU		0x1b36
#define DEVICE_ROOT_PORT	0x000c
#define VENDOR_MELLANOX		0x15b3
#define VENDOR_NVIDIA		0x10de
#define DEVICE_H100		0x2330

#define CLASS_BRIDGE		0x060400
#define CLASS_ETHERNET		0x020000
#define CLASS_3D		0x030200

#define EXP_CAP			0x60	/* PCI Express capability */
#define EXP_CAP_SIZE		0x3c
#define ACS_CAP			PCI_CFG_SPACE_SIZE
#define LINK_SPEED		PCI_EXP_LNKCAP_SLS_16_0GB
#define LINK_WIDTH		16
#define ALL_SPEEDS		(PCI_EXP_LNKCAP2_SLS_2_5GB |		\
				 PCI_EXP_LNKCAP2_SLS_5_0GB |		\
				 PCI_EXP_LNKCAP2_SLS_8_0GB |		\
				 PCI_EXP_LNKCAP2_SLS_16_0GB)
#define PAYLOAD_256		FIELD_PREP(PCI_EXP_DEVCTL_PAYLOAD, 1)
#define ACS_ABILITIES		(PCI_ACS_SV | PCI_ACS_TB | PCI_ACS_RR |	\
				 PCI_ACS_CR | PCI_ACS_UF | PCI_ACS_DT)

/* --- Contents ----------------------------------------------------------- */

static void put8(struct mlx5sim_function *f, int where, u8 value)
{
	f->config[where] = value;
}

static void put16(struct mlx5sim_function *f, int where, u16 value)
{
	put_unaligned_le16(value, f->config + where);
}

static void put32(struct mlx5sim_function *f, int where, u32 value)
{
	put_unaligned_le32(value, f->config + where);
}

static void writable16(struct mlx5sim_function *f, int where, u16 mask)
{
	put_unaligned_le16(mask, f->writable + where);
}

static void put_link(struct mlx5sim_function *f, int speed, int width)
{
	put16(f, EXP_CAP + PCI_EXP_LNKSTA,
	      speed | FIELD_PREP(PCI_EXP_LNKSTA_NLW, width));
}

/* What firmware has chosen: reads of 512 bytes, relaxed ordering allowed. */
static void add_express(struct mlx5sim_function *f, int type)
{
	int cap = EXP_CAP;

	put8(f, PCI_CAPABILITY_LIST, cap);
	put16(f, PCI_STATUS, PCI_STATUS_CAP_LIST);
	put8(f, cap, PCI_CAP_ID_EXP);
	put16(f, cap + PCI_EXP_FLAGS, 2 | FIELD_PREP(PCI_EXP_FLAGS_TYPE, type));
	put32(f, cap + PCI_EXP_DEVCAP, 2 | PCI_EXP_DEVCAP_EXT_TAG |
	      PCI_EXP_DEVCAP_RBER);
	put16(f, cap + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_RELAX_EN | PAYLOAD_256 |
	      PCI_EXP_DEVCTL_EXT_TAG | PCI_EXP_DEVCTL_NOSNOOP_EN |
	      PCI_EXP_DEVCTL_READRQ_512B);
	writable16(f, cap + PCI_EXP_DEVCTL, 0x7fff);
	put32(f, cap + PCI_EXP_LNKCAP, LINK_SPEED |
	      FIELD_PREP(PCI_EXP_LNKCAP_MLW, LINK_WIDTH));
	writable16(f, cap + PCI_EXP_LNKCTL, PCI_EXP_LNKCTL_CCC);
	put_link(f, LINK_SPEED, LINK_WIDTH);
	writable16(f, cap + PCI_EXP_DEVCTL2, 0x001f);
	put32(f, cap + PCI_EXP_LNKCAP2, ALL_SPEEDS);
	put16(f, cap + PCI_EXP_LNKCTL2, LINK_SPEED);
}

static void fill(struct mlx5sim_function *f, u16 vendor, u16 device, u32 class)
{
	put16(f, PCI_VENDOR_ID, vendor);
	put16(f, PCI_DEVICE_ID, device);
	put32(f, PCI_CLASS_REVISION, class << 8);
	writable16(f, PCI_COMMAND, PCI_COMMAND_IO | PCI_COMMAND_MEMORY |
		   PCI_COMMAND_MASTER | PCI_COMMAND_PARITY |
		   PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE);
}

static void fill_endpoint(struct mlx5sim_function *f, u16 vendor, u16 device,
			  u32 class, u16 subsystem)
{
	fill(f, vendor, device, class);
	put16(f, PCI_SUBSYSTEM_VENDOR_ID, vendor);
	put16(f, PCI_SUBSYSTEM_ID, subsystem);
	add_express(f, PCI_EXP_TYPE_ENDPOINT);
}

/* A bridge without windows, and with ACS, which firmware has left off. */
static void fill_root_port(struct mlx5sim_function *f, u8 secondary)
{
	fill(f, VENDOR_QEMU, DEVICE_ROOT_PORT, CLASS_BRIDGE);
	put8(f, PCI_HEADER_TYPE, PCI_HEADER_TYPE_BRIDGE);
	put8(f, PCI_PRIMARY_BUS, f->bus);
	put8(f, PCI_SECONDARY_BUS, secondary);
	put8(f, PCI_SUBORDINATE_BUS, secondary);
	/* Bases above limits: no window. */
	put16(f, PCI_IO_BASE, 0x00f0);
	put32(f, PCI_MEMORY_BASE, 0x0000fff0);
	put32(f, PCI_PREF_MEMORY_BASE, 0x0000fff0);
	writable16(f, PCI_BRIDGE_CONTROL, 0x001b);
	add_express(f, PCI_EXP_TYPE_ROOT_PORT);
	writable16(f, EXP_CAP + PCI_EXP_RTCTL, 0x000f);
	put32(f, ACS_CAP, PCI_EXT_CAP_ID_ACS | 1 << 16);
	put16(f, ACS_CAP + PCI_ACS_CAP, ACS_ABILITIES);
	writable16(f, ACS_CAP + PCI_ACS_CTRL, ACS_ABILITIES);
}

static void place(struct mlx5sim_function *f, u8 bus, u8 slot)
{
	f->bus = bus;
	f->devfn = PCI_DEVFN(slot, 0);
}

/* The root bus has the number before the card's, the GPU's bus that after. */
int mlx5sim_pci_init(struct mlx5sim_port *port, u16 device)
{
	struct mlx5sim_function *f = port->functions;
	unsigned int domain, bus;
	char rest[8];

	if (sscanf(port->bdf, "%4x:%2x:%7s", &domain, &bus, rest) != 3 ||
	    strcmp(rest, "00.0") || bus < 2 || bus > 0xfd) {
		pr_err("%s: a port's address looks like 0000:17:00.0\n",
		       port->bdf);
		return -EINVAL;
	}
	port->sysdata.domain = domain;
	port->sysdata.node = port->numa >= 0 && node_online(port->numa) ?
			     port->numa : NUMA_NO_NODE;
	port->busn = DEFINE_RES_NAMED(bus - 1, port->gpu ? 3 : 2, port->bdf,
				      IORESOURCE_BUS);
	port->function_count = port->gpu ? MLX5SIM_FUNCTIONS : MLX5SIM_NIC + 1;
	place(&f[MLX5SIM_ROOT_PORT], bus - 1, 0);
	place(&f[MLX5SIM_NIC], bus, 0);
	place(&f[MLX5SIM_GPU_ROOT_PORT], bus - 1, 1);
	place(&f[MLX5SIM_GPU], bus + 1, 0);
	fill_root_port(&f[MLX5SIM_ROOT_PORT], bus);
	fill_endpoint(&f[MLX5SIM_NIC], VENDOR_MELLANOX, device, CLASS_ETHERNET,
		      0x0016);
	fill_root_port(&f[MLX5SIM_GPU_ROOT_PORT], bus + 1);
	fill_endpoint(&f[MLX5SIM_GPU], VENDOR_NVIDIA, DEVICE_H100, CLASS_3D,
		      0x16c1);
	return 0;
}

/* As if the card's link had been trained so: both ends tell. */
int mlx5sim_pci_set_link(struct mlx5sim_port *port, int speed, int width)
{
	static const u8 gts[] = { 0, 2, 5, 8, 16, 32 };
	int i;

	for (i = 1; i < ARRAY_SIZE(gts); i++)
		if (gts[i] == speed)
			break;
	if (i == ARRAY_SIZE(gts) || width < 1 || width > 32)
		return -EINVAL;
	put_link(&port->functions[MLX5SIM_ROOT_PORT], i, width);
	put_link(&port->functions[MLX5SIM_NIC], i, width);
	return 0;
}

/* --- Access ------------------------------------------------------------- */

static struct mlx5sim_port *bus_port(struct pci_bus *bus)
{
	return container_of(to_pci_sysdata(bus), struct mlx5sim_port, sysdata);
}

static struct mlx5sim_function *find_function(struct pci_bus *bus,
					      unsigned int devfn)
{
	struct mlx5sim_port *port = bus_port(bus);
	int i;

	for (i = 0; i < port->function_count; i++)
		if (port->functions[i].bus == bus->number &&
		    port->functions[i].devfn == devfn)
			return &port->functions[i];
	return NULL;
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int where,
		       int size, u32 *value)
{
	struct mlx5sim_function *f = find_function(bus, devfn);
	__le32 raw = 0;

	if (!f) {
		PCI_SET_ERROR_RESPONSE(value);
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	memcpy(&raw, f->config + where, size);
	*value = le32_to_cpu(raw);
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where,
			int size, u32 value)
{
	struct mlx5sim_function *f = find_function(bus, devfn);
	u8 mask;
	int err, i;

	if (!f)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (mlx5sim_broken(bus_port(bus), MLX5SIM_SET_PCI, &err))
		return err ? PCIBIOS_SET_FAILED : PCIBIOS_SUCCESSFUL;
	for (i = 0; i < size; i++, value >>= 8) {
		mask = f->writable[where + i];
		f->config[where + i] = (f->config[where + i] & ~mask) |
				       (value & mask);
	}
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = {
	.read = config_read,
	.write = config_write,
};

/* --- Plugging in and out ------------------------------------------------ */

int mlx5sim_pci_add(struct mlx5sim_port *port)
{
	struct pci_host_bridge *bridge = pci_alloc_host_bridge(0);
	int err;

	if (!bridge)
		return -ENOMEM;
	pci_add_resource(&bridge->windows, &port->busn);
	bridge->sysdata = &port->sysdata;
	bridge->busnr = port->busn.start;
	bridge->ops = &config_ops;
	/* Not pci_host_probe(): there are no windows to be assigned. */
	pci_lock_rescan_remove();
	err = pci_scan_root_bus_bridge(bridge);
	if (err) {
		pci_unlock_rescan_remove();
		pci_free_host_bridge(bridge);
		return err;
	}
	port->root = bridge->bus;
	pci_bus_add_devices(port->root);
	pci_unlock_rescan_remove();
	return 0;
}

void mlx5sim_pci_del(struct mlx5sim_port *port)
{
	if (!port->root)
		return;
	pci_lock_rescan_remove();
	pci_stop_root_bus(port->root);
	pci_remove_root_bus(port->root);
	pci_unlock_rescan_remove();
	port->root = NULL;
}

/* The port of a function that config_ops serves; NULL for any other. */
struct mlx5sim_port *mlx5sim_pci_port(struct pci_dev *pdev)
{
	return pdev->bus->ops == &config_ops ? bus_port(pdev->bus) : NULL;
}
EXPORT_SYMBOL_GPL(mlx5sim_pci_port);
