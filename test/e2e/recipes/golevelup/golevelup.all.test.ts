import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { connect, type ChannelModel, type ConfirmChannel } from 'amqplib';
import ts from 'typescript';
import { installPackages } from '../../../support/packages/install-packages.js';
import { packPackage } from '../../../support/packages/packed-package.js';
import { TalkingProcess } from '../../../support/processes/talking-process.js';
import { projectRoot } from '../../../support/project-root.js';
import { queueDepth } from '../../../support/rabbitmq/rabbitmq-queues.js';
import { useRabbitMq } from '../../../support/rabbitmq/use-rabbitmq.js';
import { startRedis, type RedisServer } from '../../../support/redis/redis-server.js';
import { toJavaScript } from '../../../support/typescript/to-javascript.js';
import { untilSettled } from '../../../support/waiting/until-settled.js';
import { until } from '../../../support/waiting/until.js';
import type { Order } from '../bank.js';
import type { ProgramMessage, ProgramSettings } from './program-settings.js';

const RECIPES = join(projectRoot, 'test/e2e/recipes');
const FILES = ['bank.ts', 'golevelup/orders.subscriber.ts', 'golevelup/program.ts'];
const GOLEVELUP = '@golevelup/nestjs-rabbitmq';
/** The newest that the package's peer dependencies allow. */
const NEST = '11.2.10';
const LEASE_MS = 1_000;
const DELIVERY_LIMIT = 5;

const broker = useRabbitMq();
let redis: RedisServer;
let folder: string;
let connection: ChannelModel;
let channel: ConfirmChannel;
let services: TalkingProcess<ProgramMessage>[] = [];
let hangsAt: string;

/** An application on the newest Nest that the package supports, with the library as it is published. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'idempotency-golevelup-'));
  const { tarball } = await packPackage(folder);
  await installPackages(folder, {
    type: 'module',
    dependencies: {
      '@nestjs/common': NEST,
      '@nestjs/core': NEST,
      [GOLEVELUP]: '9.0.2',
      ioredis: '5.9.2',
      'reflect-metadata': '0.2.2',
      rxjs: '7.8.2',
      'nestjs-idempotency': `file:${tarball}`,
    },
  });
  for (const file of FILES) {
    const target = join(folder, file.replace(/\.ts$/, '.js'));
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, await toJavaScript(join(RECIPES, file)));
  }
  redis = await startRedis();
  connection = await connect(broker.url);
  channel = await connection.createConfirmChannel();
  await channel.assertQueue('billing.dead', { durable: true });
}, 300_000);
afterAll(async () => {
  await connection.close();
  await redis.stop();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => {
  hangsAt = randomUUID();
});
afterEach(async () => {
  await Promise.all(services.map((service) => service.kill()));
  services = [];
  for (const queue of ['billing', 'billing.dead']) await channel.purgeQueue(queue);
});

async function start(): Promise<TalkingProcess<ProgramMessage>> {
  const settings: ProgramSettings = {
    brokerUrl: broker.url,
    redisUrl: redis.url,
    leaseMs: LEASE_MS,
    hangsAt,
  };
  const script = pathToFileURL(join(folder, 'golevelup/program.js'));
  const service = new TalkingProcess<ProgramMessage>(script, settings, []);
  services.push(service);
  await service.until((messages) => messages.some(({ said }) => said === 'ready'));
  return service;
}

async function publish(order: Order, messageId?: string, routingKey = 'order.placed') {
  const content = Buffer.from(JSON.stringify(order));
  channel.publish('orders', routingKey, content, {
    persistent: true,
    ...(messageId !== undefined && { messageId }),
  });
  await channel.waitForConfirms();
}

/** All calls of the bank, in all processes. */
const calls = () =>
  services
    .flatMap(({ messages }) => messages)
    .flatMap((message) =>
      message.said === 'charged' || message.said === 'refused' ? [message] : [],
    );

/** Waits until a queue holds `count` ready messages, and none that is not acknowledged. */
const settled = (queue: string, count: number) =>
  untilSettled(async () => {
    const { ready, unacked } = await queueDepth(broker, queue);
    return ready === count && unacked === 0;
  });

const newOrder = (amount = 4999): Order => ({ id: randomUUID(), amount });

it('The recipe fits the types of the package', () => {
  const tsconfig = join(projectRoot, 'test/tsconfig.json');
  const { config } = ts.readConfigFile(tsconfig, (name) => ts.sys.readFile(name)) as {
    config: object;
  };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, dirname(tsconfig));
  const paths = { ...options.paths, [GOLEVELUP]: [join(folder, 'node_modules', GOLEVELUP)] };
  const files = FILES.map((file) => join(RECIPES, file));
  const program = ts.createProgram(files, { ...options, paths });
  const complaints = files.flatMap((file) =>
    program
      .getSemanticDiagnostics(program.getSourceFile(file))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
  );
  expect(complaints).toEqual([]);
  expect(program.getSourceFiles().map(({ fileName }) => fileName)).toContainEqual(
    expect.stringContaining(`${GOLEVELUP}/lib/index.d.ts`),
  );
});

describe('A message for a method of @golevelup/nestjs-rabbitmq', () => {
  it('is handled once, and every copy is acknowledged', async () => {
    const order = newOrder();
    await start();
    await start();
    for (let copy = 0; copy < 20; copy += 1) await publish(order, order.id);
    await until(() => calls().length > 0);
    await settled('billing', 0);
    expect(calls()).toMatchObject([{ said: 'charged', id: order.id, attempt: 1 }]);
    await settled('billing.dead', 0);
  }, 120_000);

  it('is taken over when its process is killed, with the same key for the bank', async () => {
    const victim = await start();
    const heir = await start();
    const order = { id: hangsAt, amount: 1 };
    await publish(order, order.id);
    await until(() => calls().length > 0);
    const [owner, other] = victim.messages.length > 1 ? [victim, heir] : [heir, victim];
    await owner.kill();
    await other.until(() => other.messages.length > 1);
    const [first, second] = calls();
    expect([first, second]).toMatchObject([
      { attempt: 1, isTakeover: false },
      { attempt: 2, isTakeover: true, idempotencyKey: first!.idempotencyKey },
    ]);
  }, 120_000);

  it('that always fails is dead-lettered by the limit of its queue', async () => {
    await start();
    const order = newOrder(-1);
    await publish(order, order.id);
    await settled('billing.dead', 1);
    await settled('billing', 0);
    expect(calls()).toHaveLength(DELIVERY_LIMIT + 1);
    expect(calls().map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6]);
  }, 120_000);

  it.each([
    ['has no id', undefined],
    ['has the id of another order', 'taken'],
  ])(
    'that %s is dead-lettered at once, and does not run',
    async (_, prefix) => {
      await start();
      const first = newOrder();
      const id = prefix && `${prefix}-${first.id}`;
      if (id !== undefined) {
        await publish(first, id);
        await until(() => calls().length === 1);
      }
      const ran = calls().length;
      await publish(newOrder(), id);
      await settled('billing.dead', 1);
      expect(calls()).toHaveLength(ran);
      const dead = await channel.get('billing.dead', { noAck: true });
      expect(dead).toMatchObject({
        properties: { headers: { 'x-first-death-reason': 'rejected' } },
      });
    },
    120_000,
  );

  it('stays in its queue while the store is away, and is handled afterwards', async () => {
    await start();
    const order = newOrder();
    const { port } = redis;
    await redis.stop();
    await publish(order, order.id);
    await untilSettled(async () => (await queueDepth(broker, 'billing')).unacked === 1);
    expect(calls()).toEqual([]);
    redis = await startRedis({ port });
    await until(() => calls().length === 1, 60_000);
    await settled('billing', 0);
    await settled('billing.dead', 0);
  }, 120_000);

  it('is acknowledged when the method itself returns a Nack: the guide warns of it', async () => {
    const service = await start();
    const order = newOrder();
    await publish(order, order.id, 'order.nacked');
    await service.until((messages) => messages.some(({ said }) => said === 'returned a Nack'));
    await settled('nacking', 0);
    expect(service.messages.filter(({ said }) => said === 'returned a Nack')).toHaveLength(1);
  }, 120_000);
});
