import { delimiter, join } from 'node:path';
import { WITH_QUEUE_COUNTS } from './queue-counts.js';

/** A restarted broker looks for the files of its name. Others of this name are registered with another epmd. */
const NODE = 'idempotency@localhost';

/** Erlang's form of the address on which a node and its tools listen for each other. */
const LOOPBACK_ONLY = '-kernel inet_dist_use_interface {127,0,0,1}';

/** One is already running; and one that Erlang starts itself would outlive the broker. */
const WITHOUT_EPMD = '-start_epmd false';

/**
 * It starts a second Erlang each minute, which outlives a killed broker, writes into its folder and starts an epmd.
 * Without spaces, at which the broker's script splits it.
 */
const WITHOUT_EPMD_MONITOR =
  '-eval spawn(fun()->rabbit:await_startup(),supervisor:terminate_child(rabbit_sup,rabbit_epmd_monitor_sup)end).';

/** For rabbitmq-server. */
export function brokerEnvironment(
  port: number,
  dir: string,
  epmdPort: number,
  erlang?: string,
): NodeJS.ProcessEnv {
  return {
    ...commonEnvironment(dir, epmdPort, erlang),
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_MNESIA_BASE: join(dir, 'mnesia'),
    RABBITMQ_LOG_BASE: join(dir, 'log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_ENABLED_PLUGINS_FILE: join(dir, 'enabled_plugins'),
    RABBITMQ_CONFIG_FILE: join(dir, 'rabbitmq.conf'),
    RABBITMQ_CONFIG_FILES: join(dir, '*.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(dir, 'advanced.config'),
    // Erlang replaces the script that starts it: a signal reaches the broker itself.
    RUNNING_UNDER_SYSTEMD: 'true',
    // A node named from the start spares RabbitMQ a second Erlang that looks for its name.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `-sname ${NODE} ${WITHOUT_EPMD} ${LOOPBACK_ONLY} ${WITH_QUEUE_COUNTS} ${WITHOUT_EPMD_MONITOR}`,
    ERL_CRASH_DUMP_SECONDS: '0',
  };
}

/** For rabbitmqctl. */
export function controlEnvironment(
  dir: string,
  epmdPort: number,
  erlang?: string,
): NodeJS.ProcessEnv {
  return {
    ...commonEnvironment(dir, epmdPort, erlang),
    RABBITMQ_CTL_ERL_ARGS: `${WITHOUT_EPMD} ${LOOPBACK_ONLY}`,
    // Any free port, instead of eleven, which several tools at once would exhaust.
    RABBITMQ_CTL_DIST_PORT_MIN: '0',
    RABBITMQ_CTL_DIST_PORT_MAX: '0',
  };
}

/** Common to a broker and its tools; without the settings of the machine's own broker. */
function commonEnvironment(dir: string, epmdPort: number, erlang?: string): NodeJS.ProcessEnv {
  return {
    PATH: [erlang ?? [], process.env.PATH ?? []].flat().join(delimiter),
    LANG: 'C.UTF-8',
    // The folder of the cookie.
    HOME: dir,
    RABBITMQ_CONF_ENV_FILE: join(dir, 'rabbitmq-env.conf'),
    RABBITMQ_NODENAME: NODE,
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
  };
}
