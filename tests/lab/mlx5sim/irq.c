// SPDX-License-Identifier: GPL-2.0
/*
 * The interrupts that a card would have: one for commands and events, and one
 * for each processor's queues. They never come; their names, /proc/irq and
 * the card's folder msi_irqs are there, and their affinity can be set.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "mlx5sim.h"

#define MAX_IRQS	9

struct card_irq {
	struct device_attribute attr;
	int number;			/* 0 = none */
	char file[12];
	char name[40];
};

struct mlx5sim_irqs {
	struct pci_dev *pdev;
	struct irq_domain *domain;
	struct card_irq irqs[MAX_IRQS];
	struct attribute *attrs[MAX_IRQS + 1];
	struct attribute_group group;
};

static void do_nothing(struct irq_data *data)
{
}

static int set_affinity(struct irq_data *data, const struct cpumask *mask,
			bool force)
{
	irq_data_update_effective_affinity(data, mask);
	return IRQ_SET_MASK_OK;
}

static struct irq_chip chip = {
	.name = "PCI-MSIX",
	.irq_mask = do_nothing,
	.irq_unmask = do_nothing,
	.irq_set_affinity = set_affinity,
};

static int map(struct irq_domain *domain, unsigned int virq,
	       irq_hw_number_t hwirq)
{
	irq_set_chip_and_handler(virq, &chip, handle_simple_irq);
	return 0;
}

static const struct irq_domain_ops domain_ops = {
	.map = map,
};

static irqreturn_t handler(int irq, void *data)
{
	return IRQ_NONE;
}

static ssize_t mode_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "msix\n");
}

static int add_irq(struct mlx5sim_irqs *irqs, int i)
{
	struct card_irq *irq = &irqs->irqs[i];
	int virq = irq_create_mapping(irqs->domain, i);
	int err;

	if (!virq)
		return -ENOMEM;
	if (i)
		snprintf(irq->name, sizeof(irq->name), "mlx5_comp%d@pci:%s",
			 i - 1, pci_name(irqs->pdev));
	else
		snprintf(irq->name, sizeof(irq->name), "mlx5_async0@pci:%s",
			 pci_name(irqs->pdev));
	err = request_irq(virq, handler, 0, irq->name, irq);
	if (err) {
		irq_dispose_mapping(virq);
		return err;
	}
	irq->number = virq;
	snprintf(irq->file, sizeof(irq->file), "%d", virq);
	sysfs_attr_init(&irq->attr.attr);
	irq->attr.attr.name = irq->file;
	irq->attr.attr.mode = 0444;
	irq->attr.show = mode_show;
	irqs->attrs[i] = &irq->attr.attr;
	return 0;
}

static void free_irqs(struct mlx5sim_irqs *irqs)
{
	int i;

	for (i = 0; i < MAX_IRQS && irqs->irqs[i].number; i++) {
		free_irq(irqs->irqs[i].number, &irqs->irqs[i]);
		irq_dispose_mapping(irqs->irqs[i].number);
	}
	irq_domain_remove(irqs->domain);
	kfree(irqs);
}

/* NULL when it cannot be: a card does without. */
struct mlx5sim_irqs *mlx5sim_irqs_add(struct pci_dev *pdev)
{
	int count = min_t(int, num_online_cpus() + 1, MAX_IRQS), err = 0, i;
	struct mlx5sim_irqs *irqs = kzalloc(sizeof(*irqs), GFP_KERNEL);

	if (!irqs)
		return NULL;
	irqs->pdev = pdev;
	irqs->domain = irq_domain_create_linear(NULL, count, &domain_ops, NULL);
	if (!irqs->domain) {
		kfree(irqs);
		return NULL;
	}
	for (i = 0; i < count && !err; i++)
		err = add_irq(irqs, i);
	irqs->group.name = "msi_irqs";
	irqs->group.attrs = irqs->attrs;
	if (!err)
		err = sysfs_create_group(&pdev->dev.kobj, &irqs->group);
	if (!err)
		return irqs;
	dev_warn(&pdev->dev, "no interrupts: %pe\n", ERR_PTR(err));
	free_irqs(irqs);
	return NULL;
}

void mlx5sim_irqs_del(struct mlx5sim_irqs *irqs)
{
	if (!irqs)
		return;
	sysfs_remove_group(&irqs->pdev->dev.kobj, &irqs->group);
	free_irqs(irqs);
}
