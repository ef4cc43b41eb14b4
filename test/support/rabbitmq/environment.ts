import { join } from 'node:path';
import { WITH_QUEUE_COUNTS } from './queue-counts.js';

/** A broker that comes back looks for the files of its name. Others of this name are registered with another epmd. */
const NODE = 'idempotency@localhost';

/** How Erlang writes the address that a node and its tools listen on for each other. */
const LOOPBACK_ONLY = '-kernel inet_dist_use_interface {127,0,0,1}';

/** One is there already; and what Erlang starts by itself would outlive the broker. */
const WITHOUT_EPMD = '-start_epmd false';

/** For rabbitmq-server. */
export function brokerEnvironment(port: number, dir: string, epmdPort: number): NodeJS.ProcessEnv {
  return {
    ...commonEnvironment(dir, epmdPort),
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_MNESIA_BASE: join(dir, 'mnesia'),
    RABBITMQ_LOG_BASE: join(dir, 'log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_ENABLED_PLUGINS_FILE: join(dir, 'enabled_plugins'),
    RABBITMQ_CONFIG_FILE: join(dir, 'rabbitmq.conf'),
    RABBITMQ_CONFIG_FILES: join(dir, '*.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(dir, 'advanced.config'),
    // Erlang in the place of the script that starts it: a signal meets the broker itself.
    RUNNING_UNDER_SYSTEMD: 'true',
    // A node that has its name from the start spares RabbitMQ a second Erlang that looks for it.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `-sname ${NODE} ${WITHOUT_EPMD} ${LOOPBACK_ONLY} ${WITH_QUEUE_COUNTS}`,
    ERL_CRASH_DUMP_SECONDS: '0',
  };
}

/** For rabbitmqctl. */
export function controlEnvironment(dir: string, epmdPort: number): NodeJS.ProcessEnv {
  return {
    ...commonEnvironment(dir, epmdPort),
    RABBITMQ_CTL_ERL_ARGS: `${WITHOUT_EPMD} ${LOOPBACK_ONLY}`,
    // Any free port, instead of eleven of which several tools at once would run out.
    RABBITMQ_CTL_DIST_PORT_MIN: '0',
    RABBITMQ_CTL_DIST_PORT_MAX: '0',
  };
}

/** What a broker and its tools have in common; nothing that is set for the machine's own broker. */
function commonEnvironment(dir: string, epmdPort: number): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    LANG: 'C.UTF-8',
    // The folder of the cookie.
    HOME: dir,
    RABBITMQ_CONF_ENV_FILE: join(dir, 'rabbitmq-env.conf'),
    RABBITMQ_NODENAME: NODE,
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
  };
}
