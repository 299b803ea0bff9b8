// SPDX-License-Identifier: GPL-2.0
/*
 * mlx5_core: the PCI driver of the simulated cards.
 */
#include <linux/module.h>
#include <linux/pci.h>

#include "mlx5sim.h"

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct mlx5sim_port *port = mlx5sim_pci_port(pdev);
	struct devlink *devlink;
	int err;

	if (!port)		/* a real card */
		return -ENODEV;
	err = pcim_enable_device(pdev);
	if (err)
		return err;
	pci_set_master(pdev);
	err = mlx5sim_port_create(port, &pdev->dev);
	if (err)
		return err;
	devlink = mlx5sim_devlink_add(port, pdev);
	if (IS_ERR(devlink)) {
		mlx5sim_port_destroy(port);
		return PTR_ERR(devlink);
	}
	pci_set_drvdata(pdev, devlink);
	port->irqs = mlx5sim_irqs_add(pdev);
	return 0;
}

static void remove(struct pci_dev *pdev)
{
	struct mlx5sim_port *port = mlx5sim_pci_port(pdev);

	mlx5sim_irqs_del(port->irqs);
	mlx5sim_devlink_del(pci_get_drvdata(pdev));
	mlx5sim_port_destroy(port);
}

static const struct pci_device_id ids[] = {
	{ PCI_VDEVICE(MELLANOX, 0x1013) },	/* ConnectX-4 */
	{ PCI_VDEVICE(MELLANOX, 0x1015) },	/* ConnectX-4LX */
	{ PCI_VDEVICE(MELLANOX, 0x1017) },	/* ConnectX-5 */
	{ PCI_VDEVICE(MELLANOX, 0x1019) },	/* ConnectX-5 Ex */
	{ PCI_VDEVICE(MELLANOX, 0x101b) },	/* ConnectX-6 */
	{ PCI_VDEVICE(MELLANOX, 0x101d) },	/* ConnectX-6 Dx */
	{ PCI_VDEVICE(MELLANOX, 0x101f) },	/* ConnectX-6 LX */
	{ PCI_VDEVICE(MELLANOX, 0x1021) },	/* ConnectX-7 */
	{ PCI_VDEVICE(MELLANOX, 0x1023) },	/* ConnectX-8 */
	{ }
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver mlx5_core_driver = {
	.name = MLX5SIM_DRIVER,
	.id_table = ids,
	.probe = probe,
	.remove = remove,
};

static int __init mlx5_core_init(void)
{
	return pci_register_driver(&mlx5_core_driver);
}

static void __exit mlx5_core_exit(void)
{
	pci_unregister_driver(&mlx5_core_driver);
	mlx5sim_cc_exit();
}

module_init(mlx5_core_init);
module_exit(mlx5_core_exit);

MODULE_DESCRIPTION("driver of simulated mlx5 cards");
MODULE_LICENSE("GPL");
