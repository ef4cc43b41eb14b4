import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { connect } from 'amqplib';
import { requireServer } from '../servers/find-executable.js';
import { brokerEnvironment, controlEnvironment } from './environment.js';
import { findRabbitMq, type FoundRabbitMq } from './installation.js';
import { hasQueueCounts } from './queue-counts.js';
import { writeSettings, type RabbitMqSettings } from './settings.js';
import { startServer, type Place, type StartedServer } from '../servers/start-server.js';

const HANDSHAKE_TIMEOUT_MS = 2_000;
const CONTROL_TIMEOUT_MS = 30_000;

export interface StartRabbitMqOptions extends Place {
  /**
   * Additional settings, which override its own: `{ consumer_timeout: 500 }` closes the channel of a consumer
   * that has not acknowledged for half a second.
   */
  readonly settings?: RabbitMqSettings;
  /**
   * Of another version.
   *
   * @defaultValue the installed ones
   */
  readonly programs?: FoundRabbitMq;
}

export interface RabbitMqServer extends StartedServer {
  /** Of the virtual host `/`, with the user `guest`. */
  readonly url: string;
  /** Runs rabbitmqctl for this broker and returns its output. */
  control(...args: string[]): Promise<string>;
}

/**
 * Starts a separate RabbitMQ on 127.0.0.1, without plugins, and waits until it accepts a client. If `dir` is
 * given, persistent data survives `stop()`, and SIGKILL if its queue was saved: `saveQueues`.
 */
export async function startRabbitMq(options: StartRabbitMqOptions = {}): Promise<RabbitMqServer> {
  const programs =
    options.programs ?? requireServer('rabbitmq-server', 'RABBITMQ_SERVER_BIN', findRabbitMq());
  let epmd: StartedServer;
  const server = await startServer('rabbitmq-server', options, async (port, dir) => {
    writeSettings(dir, options.settings ?? {});
    // Erlang's register of nodes, by which a broker and its tools find each other. With the machine's own the
    // brokers of several tests would meet, and one started by Erlang would outlive the broker.
    epmd = await startServer('epmd', { dir }, (ownPort) => ({
      program: programs.epmd,
      args: ['-d', '-port', String(ownPort), '-address', '127.0.0.1'],
      readyLog: /epmd running/,
    }));
    return {
      program: programs.server,
      args: [],
      env: brokerEnvironment(port, dir, epmd.port, programs.erlang),
      readyLog: /completed with \d+ plugins/,
      isReady: async () => hasQueueCounts(dir) && (await takesClient(port)),
      // An orderly shutdown takes a second: only where there is something to save.
      stopSignal: options.dir === undefined ? 'SIGKILL' : 'SIGTERM',
      companion: epmd,
    };
  });
  const control = async (...args: string[]) => {
    const env = controlEnvironment(server.dir, epmd.port, programs.erlang);
    const settings = { env, cwd: server.dir, timeout: CONTROL_TIMEOUT_MS };
    return (await promisify(execFile)(programs.control, args, settings)).stdout;
  };
  return { ...server, control, url: urlOf(server.port) };
}

function urlOf(port: number): string {
  return `amqp://guest:guest@127.0.0.1:${String(port)}`;
}

async function takesClient(port: number): Promise<boolean> {
  try {
    const connection = await connect(urlOf(port), { timeout: HANDSHAKE_TIMEOUT_MS });
    connection.on('error', () => undefined);
    await connection.close();
    return true;
  } catch {
    return false;
  }
}
