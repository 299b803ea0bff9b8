// SPDX-License-Identifier: GPL-2.0
/*
 * The card's counters by their names, in the order of `ethtool -S`.
 */
#include <linux/ethtool.h>
#include <linux/export.h>

#include "mlx5sim.h"

static const char * const counter_names[] = {
#define NAME(n) #n,
	MLX5SIM_COUNTERS(NAME)
};

const char * const mlx5sim_rdma_counter_names[] = {
	MLX5SIM_RDMA_COUNTERS(NAME)
};
EXPORT_SYMBOL_GPL(mlx5sim_rdma_counter_names);

/* Direction, and what follows the priority: rx_prio3_bytes. */
struct prio_name {
	const char *dir;
	const char *what;
};

static const struct prio_name prio_names[] = {
#define PRIO_NAME(d, n) { #d, #n },
	MLX5SIM_PRIO_COUNTERS(PRIO_NAME)
};

static const struct prio_name pause_names[] = {
	MLX5SIM_PAUSE_COUNTERS(PRIO_NAME)
};

static bool visit_row(const struct prio_name *names, int count,
		      const char *middle, atomic64_t *row,
		      mlx5sim_counter_fn fn, void *arg)
{
	char name[ETH_GSTRING_LEN];
	int i;

	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s_%s_%s", names[i].dir, middle,
			 names[i].what);
		if (!fn(arg, name, &row[i]))
			return false;
	}
	return true;
}

/* Calls fn for counters that exist now (or all) until it returns false. */
void mlx5sim_visit_counters(struct mlx5sim_port *port, bool all,
			    mlx5sim_counter_fn fn, void *arg)
{
	struct mlx5sim_counters *c = &port->counters;
	const struct mlx5sim_fw *fw = &port->fw;
	char prio[8];
	int i;

	for (i = 0; i < MLX5SIM_COUNTER_COUNT; i++)
		if (!fn(arg, counter_names[i], &c->one[i]))
			return;
	for (i = 0; i < MLX5SIM_PRIOS; i++) {
		snprintf(prio, sizeof(prio), "prio%d", i);
		if (!visit_row(prio_names, ARRAY_SIZE(prio_names), prio,
			       c->prio[i], fn, arg))
			return;
	}
	/* Pause counters: of PFC priorities only, else of global pause. */
	for (i = 0; i < MLX5SIM_PRIOS; i++) {
		if (!all && !(fw->pfc_en & BIT(i)))
			continue;
		snprintf(prio, sizeof(prio), "prio%d", i);
		if (!visit_row(pause_names, ARRAY_SIZE(pause_names), prio,
			       c->pause[i], fn, arg))
			return;
	}
	if (all || (!fw->pfc_en && (fw->rx_pause || fw->tx_pause)))
		visit_row(pause_names, ARRAY_SIZE(pause_names), "global",
			  c->pause[MLX5SIM_GLOBAL_PAUSE], fn, arg);
}
EXPORT_SYMBOL_GPL(mlx5sim_visit_counters);

struct lookup {
	const char *name;
	atomic64_t *found;
};

static bool match_counter(void *arg, const char *name, atomic64_t *counter)
{
	struct lookup *lookup = arg;

	if (strcmp(lookup->name, name))
		return true;
	lookup->found = counter;
	return false;
}

atomic64_t *mlx5sim_find_counter(struct mlx5sim_port *port, const char *name)
{
	struct lookup lookup = { .name = name };
	int i;

	for (i = 0; i < MLX5SIM_RDMA_COUNTER_COUNT; i++)
		if (!strcmp(mlx5sim_rdma_counter_names[i], name))
			return &port->counters.rdma[i];
	mlx5sim_visit_counters(port, true, match_counter, &lookup);
	return lookup.found;
}
