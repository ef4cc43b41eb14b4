import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import { connect as connectNats, type Msg } from '@nats-io/transport-node';
import { connect as connectRabbitMq, type ConfirmChannel } from 'amqplib';
import { connect as connectMqtt, connectAsync } from 'mqtt';
import { processesIn } from '../../support/processes/processes-in.js';
import { findMosquitto, startMosquitto } from '../../support/servers/mosquitto-server.js';
import { findNats, startNats } from '../../support/servers/nats-server.js';
import { queueDepth, queueLength, saveQueues } from '../../support/rabbitmq/rabbitmq-queues.js';
import { startRabbitMq, type RabbitMqServer } from '../../support/rabbitmq/rabbitmq-server.js';
import { findRabbitMq } from '../../support/rabbitmq/installation.js';
import type { StartedServer } from '../../support/servers/start-server.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { until } from '../../support/waiting/until.js';
import { brokers } from './support/brokers.js';

const START_AND_WAIT = fileURLToPath(new URL('support/start-and-wait.ts', import.meta.url));

/** Skips a missing server; `npm test` reports it (test/support/provision). */
const where = (found: unknown) => (found === undefined ? describe.skip : describe);
const onLinux = process.platform === 'linux' ? describe : describe.skip;

/** What a test has started; ended in reverse order. */
const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function ending<Server extends StartedServer>(server: Server): Server {
  endings.push(() => server.stop());
  return server;
}

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'idempotency-broker-'));
  endings.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

onLinux('the test brokers', () => {
  const installed = brokers.filter(
    ({ name, isInstalled }) => isInstalled && (name === 'RabbitMQ') === isTestAll,
  );

  it.each(installed)(
    '$name leaves neither a process nor a file when its parent is killed',
    async ({ name, processes }) => {
      const starter = fork(START_AND_WAIT, [name], { execArgv: [...typescriptNodeOptions] });
      endings.push(() => starter.kill('SIGKILL'));
      const [{ dir }] = (await once(starter, 'message')) as [{ dir: string }];
      expect(processesIn(dir).length).toBeGreaterThanOrEqual(processes);
      const ended = once(starter, 'exit');
      starter.kill('SIGKILL');
      expect(await ended).toEqual([null, 'SIGKILL']);
      await until(() => processesIn(dir).length === 0 && !existsSync(dir));
    },
    60_000,
  );

  it.each(installed)(
    '$name leaves neither a process nor a file when it is stopped',
    async ({ start, processes }) => {
      const server = ending(await start());
      const { dir } = server;
      expect(processesIn(dir).length).toBeGreaterThanOrEqual(processes);
      await server.stop();
      expect(existsSync(dir)).toBe(false);
      await until(() => processesIn(dir).length === 0);
    },
    60_000,
  );
});

/** In the `push` project, the shared broker of each run covers this. */
const describeRabbitMq = () => {
  let server: RabbitMqServer;
  let channel: ConfirmChannel;

  async function open(): Promise<void> {
    const connection = await connectRabbitMq(server.url);
    connection.on('error', () => undefined);
    endings.push(() => connection.close().catch(() => undefined));
    channel = await connection.createConfirmChannel();
    channel.on('error', () => undefined);
  }

  async function publish(queue: string, count: number): Promise<void> {
    await channel.assertQueue(queue, { arguments: { 'x-queue-type': queue } });
    for (let i = 0; i < count; i += 1) {
      channel.sendToQueue(queue, Buffer.from('message'), { persistent: true });
    }
    await channel.waitForConfirms();
  }

  it('has no monitor that starts a second Erlang each minute, which outlives it', async () => {
    server = ending(await startRabbitMq());
    const monitor = () => server.control('eval', 'whereis(rabbit_epmd_monitor).');
    await until(async () => (await monitor()) === 'undefined\n');
  }, 60_000);

  it('reports ready messages, unacknowledged messages, and a missing queue', async () => {
    server = ending(await startRabbitMq());
    await open();
    for (const queue of ['classic', 'quorum']) {
      await publish(queue, 5);
      await channel.prefetch(2);
      await channel.consume(queue, () => undefined);
      const held = { ready: 3, unacked: 2, consumers: 1 };
      await until(async () => isDeepStrictEqual(await queueDepth(server, queue), held));
      expect(await queueLength(server.url, queue)).toEqual({ ready: 3, consumers: 1 });
    }
    await expect(queueDepth(server, 'none')).rejects.toThrow('there is no queue none');
    await expect(queueLength(server.url, 'none')).rejects.toThrow("no queue 'none'");
  }, 60_000);

  it('restarts after SIGKILL with persistent messages and a consumer timeout', async () => {
    const dir = folder();
    server = ending(await startRabbitMq({ dir }));
    await open();
    for (const queue of ['classic', 'quorum']) await publish(queue, 5);
    await saveQueues(server);
    server.kill('SIGKILL');
    await server.stop();
    await expect(queueLength(server.url, 'classic')).rejects.toThrow('ECONNREFUSED');

    const settings = { consumer_timeout: 200 };
    server = ending(await startRabbitMq({ dir, port: server.port, settings }));
    for (const queue of ['classic', 'quorum']) {
      await until(async () => (await queueLength(server.url, queue)).ready === 5);
    }
    await open();
    const rejection = new Promise((resolve) => channel.once('error', resolve));
    await channel.consume('classic', () => undefined);
    expect(String(await rejection)).toContain('delivery acknowledgement on channel 1 timed out');
    expect(await queueDepth(server, 'classic')).toEqual({ ready: 5, unacked: 0, consumers: 0 });
  }, 60_000);
};
if (isTestAll) where(findRabbitMq())('a RabbitMQ test server', describeRabbitMq);

where(findNats())('a NATS test server', () => {
  it('replies, and provides streams only when JetStream is enabled', async () => {
    const replies: boolean[] = [];
    for (const jetStream of [false, true]) {
      const server = ending(await startNats({ jetStream }));
      const connection = await connectNats({ servers: server.url });
      endings.push(() => connection.close());
      const callback = (_: unknown, message: Msg) => void message.respond('answer');
      connection.subscribe('questions', { callback });
      expect((await connection.request('questions')).string()).toBe('answer');
      const streams = connection.request('$JS.API.INFO', '', { timeout: 2_000 });
      replies.push(
        await streams.then(
          () => true,
          () => false,
        ),
      );
    }
    expect(replies).toEqual([false, true]);
  });
});

where(findMosquitto())('a Mosquitto test server', () => {
  it("speaks MQTT v5, and keeps an absent subscriber's messages across an orderly restart", async () => {
    const dir = folder();
    const session = {
      protocolVersion: 5,
      clientId: 'subscriber',
      clean: false,
      properties: { sessionExpiryInterval: 60 },
    } as const;
    let server = ending(await startMosquitto({ dir }));
    const subscriber = await connectAsync(server.url, session);
    await subscriber.subscribeAsync('orders', { qos: 1 });
    await subscriber.endAsync();
    const publisher = await connectAsync(server.url, { protocolVersion: 5 });
    await publisher.publishAsync('orders', 'order', {
      qos: 1,
      properties: { userProperties: { 'idempotency-key': 'k-1' } },
    });
    await publisher.endAsync();
    await server.stop();

    server = ending(await startMosquitto({ dir, port: server.port }));
    const again = connectMqtt(server.url, session);
    endings.push(() => again.endAsync(true));
    const [topic, payload, packet] = await new Promise<unknown[]>((resolve) => {
      again.once('message', (...message) => resolve(message));
    });
    expect([topic, String(payload)]).toEqual(['orders', 'order']);
    expect(packet).toMatchObject({
      properties: { userProperties: { 'idempotency-key': 'k-1' } },
    });
  });
});
