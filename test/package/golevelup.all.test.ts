import { randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { connect, type ConfirmChannel } from 'amqplib';
import type { Order } from '../../examples/bank.js';
import { golevelupVersion } from '../support/packages/versions.js';
import { installPackages } from '../support/packages/install-packages.js';
import { TalkingProcess } from '../support/processes/talking-process.js';
import { projectRoot } from '../support/project-root.js';
import { quorumTotals, type QuorumTotals } from '../support/rabbitmq/queue-counts.js';
import { queueDepth } from '../support/rabbitmq/rabbitmq-queues.js';
import { startRabbitMq } from '../support/rabbitmq/rabbitmq-server.js';
import { startRedis } from '../support/redis/redis-server.js';
import { useServer } from '../support/servers/use-server.js';
import { toJavaScript } from '../support/typescript/to-javascript.js';
import { untilSettled } from '../support/waiting/until.js';
import { useTarball } from './support/describe-consumers.js';
import type { ProgramMessage, ProgramSettings } from './support/golevelup/program-settings.js';
import { runCommand } from './support/run-command.js';

jest.setTimeout(180_000);

const RECIPE = 'examples/golevelup/orders.subscriber.ts';
const PROGRAM = 'test/package/support/golevelup/program.ts';
const FILES = ['examples/bank.ts', RECIPE, PROGRAM];
const GOLEVELUP = '@golevelup/nestjs-rabbitmq';
/** The newest that the package's peer dependencies allow. */
const NEST = '11.2.10';

/** The recipe, and others that differ from it by some text. */
const VARIANTS = {
  recipe: [],
  shortWait: [["timeout: '1m'", "timeout: '300ms'"]],
  unprotected: [
    [/@Idempotent\(\{[^]*?\n {2}\}\)/, ''],
    [/requireIdempotencyContext\(\).*/, 'order.id;'],
  ],
} as const satisfies Record<string, readonly (readonly [string | RegExp, string])[]>;

type Variant = keyof typeof VARIANTS;

const tarball = useTarball();
// Their counts, and their pauses, are those of this file.
const broker = useServer(startRabbitMq);
const redis = useServer(startRedis);
const connection = useServer(() => connect(broker.url));
let folder: string;
let channel: ConfirmChannel;
let services: TalkingProcess<ProgramMessage>[] = [];
let published: number;
let before: QuorumTotals;
let holdsAt: string;

/** An application with the library as it is published. */
beforeAll(async () => {
  folder = join(tarball.folder, 'application');
  await mkdir(folder);
  await installPackages(folder, {
    type: 'module',
    dependencies: {
      '@nestjs/common': NEST,
      '@nestjs/core': NEST,
      [GOLEVELUP]: golevelupVersion,
      // For the comparison with the package's own types.
      '@types/amqplib': '0.10.8',
      '@types/node': '20.19.43',
      ioredis: '5.9.2',
      'reflect-metadata': '0.2.2',
      rxjs: '7.8.2',
      'nestjs-idempotency': `file:${tarball.packed.tarball}`,
    },
  });
  for (const variant of Object.keys(VARIANTS) as Variant[]) await compile(variant);
  channel = await connection.createConfirmChannel();
  await channel.assertQueue('billing.dead', { durable: true });
}, 300_000);
beforeEach(async () => {
  holdsAt = randomUUID();
  published = 0;
  before = await quorumTotals(broker);
});
afterEach(async () => {
  redis.kill('SIGCONT');
  await Promise.all(services.map((service) => service.kill()));
  services = [];
  await channel.deleteQueue('billing');
  await channel.purgeQueue('billing.dead');
});

async function compile(variant: Variant): Promise<void> {
  for (const file of FILES) {
    const target = join(folder, variant, file);
    await mkdir(dirname(target), { recursive: true });
    let text = await readFile(join(projectRoot, file), 'utf8');
    if (file === RECIPE) {
      for (const [part, other] of VARIANTS[variant]) {
        expect(text).toMatch(part);
        text = text.replace(part, other);
      }
    }
    await writeFile(target, text);
    await writeFile(target.replace(/\.ts$/, '.js'), await toJavaScript(target));
  }
}

/**
 * One at a time: of two clients that declare the same new quorum queue at once, RabbitMQ 3.10 cuts one off (541).
 */
async function start({
  variant = 'recipe',
  onTakeover = 'run',
}: {
  readonly variant?: Variant;
  readonly onTakeover?: ProgramSettings['onTakeover'];
} = {}): Promise<TalkingProcess<ProgramMessage>> {
  const settings: ProgramSettings = {
    brokerUrl: broker.url,
    redisUrl: redis.url,
    onTakeover,
    holdsAt,
  };
  const script = pathToFileURL(join(folder, variant, PROGRAM.replace(/\.ts$/, '.js')));
  const service = new TalkingProcess<ProgramMessage>(script, settings, []);
  services.push(service);
  await service.until((messages) => messages.some(({ said }) => said === 'ready'));
  return service;
}

async function publish(
  order: Order,
  messageId: string | undefined = order.id,
  routingKey = 'order.placed',
): Promise<void> {
  const content = Buffer.from(JSON.stringify(order));
  channel.publish('orders', routingKey, content, {
    persistent: true,
    ...(messageId !== '' && { messageId }),
  });
  await channel.waitForConfirms();
  published += 1;
}

/** All calls of the bank, in all processes. */
const calls = () =>
  services
    .flatMap(({ messages }) => messages)
    .flatMap((message) =>
      message.said === 'charged' || message.said === 'failed' ? [message] : [],
    );

const called = (times: number) => untilSettled(() => Promise.resolve(calls().length === times));

/** Waits until so many messages of a queue are ready and with consumers. */
const reached = (ready: number, unacked: number, queue = 'billing') =>
  untilSettled(async () => {
    const depth = await queueDepth(broker, queue);
    return depth.ready === ready && depth.unacked === unacked;
  });

/** What the broker has done with the messages of this test. */
async function counted(): Promise<QuorumTotals> {
  const now = await quorumTotals(broker);
  const names = Object.keys(now) as (keyof QuorumTotals)[];
  return Object.fromEntries(
    names.map((name) => [name, now[name] - before[name]]),
  ) as unknown as QuorumTotals;
}

/** Waits until the consumers are done with all messages. The depth alone may be that of before. */
async function settled(): Promise<QuorumTotals> {
  await untilSettled(async () => {
    const { acknowledged, rejected, overLimit } = await counted();
    return acknowledged + rejected + overLimit === published;
  });
  await reached(0, 0);
  const totals = await counted();
  await reached(totals.rejected + totals.overLimit, 0, 'billing.dead');
  return totals;
}

const redelivered = () => untilSettled(async () => (await counted()).redelivered > 0);

/** Why the broker has dead-lettered a message. */
async function reasonOfDeath(): Promise<unknown> {
  const dead = await channel.get('billing.dead', { noAck: true });
  return dead && dead.properties.headers?.['x-first-death-reason'];
}

const newOrder = (amount = 4999): Order => ({ id: randomUUID(), amount });

/** One that takes until goOn(). */
const heldOrder = (): Order => ({ id: holdsAt, amount: 4999 });

it('The recipe fits the types of the package', async () => {
  const config = {
    extends: join(projectRoot, 'test/tsconfig.json'),
    compilerOptions: { rootDir: '/' },
    include: [],
    files: [join('recipe', RECIPE)],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const tsc = join(projectRoot, 'node_modules/typescript/bin/tsc');
  const args = [tsc, '-p', folder, '--listFiles'];
  expect(await runCommand(process.execPath, args, { cwd: folder })).toContain(
    `${GOLEVELUP}/lib/index.d.ts`,
  );
});

describe('A message for a method of @golevelup/nestjs-rabbitmq', () => {
  it('is acknowledged when it has been handled', async () => {
    const service = await start();
    await publish(heldOrder());
    await called(1);
    await reached(0, 1);
    expect(await counted()).toMatchObject({ delivered: 1, acknowledged: 0 });
    service.goOn();
    expect(await settled()).toEqual({
      delivered: 1,
      redelivered: 0,
      acknowledged: 1,
      rejected: 0,
      overLimit: 0,
    });
    expect(calls()).toMatchObject([{ said: 'charged', attempt: 1 }]);
  });

  it('is acknowledged when it was handled before', async () => {
    await start();
    const order = newOrder();
    for (let copy = 1; copy <= 3; copy += 1) {
      await publish(order);
      expect(await settled()).toMatchObject({ delivered: copy, acknowledged: copy });
    }
    expect(await counted()).toMatchObject({ redelivered: 0, rejected: 0, overLimit: 0 });
    expect(calls()).toHaveLength(1);
  });

  it('charges twice where nothing protects the method: this test counts it', async () => {
    await start({ variant: 'unprotected' });
    const order = newOrder();
    for (let copy = 1; copy <= 2; copy += 1) await publish(order);
    expect(await settled()).toMatchObject({ acknowledged: 2 });
    expect(calls()).toHaveLength(2);
  });

  it('waits while another consumer has it, and is acknowledged together with it', async () => {
    await publishHeld();
    expect(await counted()).toMatchObject({ delivered: 6, acknowledged: 0, redelivered: 0 });
    for (const service of services) service.goOn();
    expect(await settled()).toEqual({
      delivered: 6,
      redelivered: 0,
      acknowledged: 6,
      rejected: 0,
      overLimit: 0,
    });
    expect(calls()).toHaveLength(1);
  });

  it('is requeued when another consumer has it longer than it waits', async () => {
    await start({ variant: 'shortWait' });
    await start({ variant: 'shortWait' });
    for (let copy = 1; copy <= 2; copy += 1) await publish(heldOrder());
    await redelivered();
    expect(await counted()).toMatchObject({ acknowledged: 0, rejected: 0 });
    for (const service of services) service.goOn();
    expect(await settled()).toMatchObject({ acknowledged: 2, rejected: 0, overLimit: 0 });
    expect(calls()).toHaveLength(1);
  });

  it('is requeued when the method throws, and runs at the next delivery', async () => {
    await start();
    await publish(newOrder(0));
    expect(await settled()).toEqual({
      delivered: 2,
      redelivered: 1,
      acknowledged: 1,
      rejected: 0,
      overLimit: 0,
    });
    expect(calls()).toMatchObject([
      { said: 'failed', attempt: 1 },
      { said: 'charged', attempt: 2 },
    ]);
  });

  it('that always fails is dead-lettered by the limit of its queue', async () => {
    await start();
    await publish(newOrder(-1));
    expect(await settled()).toEqual({
      delivered: 6,
      redelivered: 5,
      acknowledged: 0,
      rejected: 0,
      overLimit: 1,
    });
    expect(calls().map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await reasonOfDeath()).toBe('delivery_limit');
  });

  it('is redelivered when its process is killed, and taken over with the same key for the bank', async () => {
    const { heir } = await killOwner('run');
    await called(2);
    expect(await counted()).toMatchObject({ delivered: 2, redelivered: 1, acknowledged: 0 });
    heir.goOn();
    expect(await settled()).toMatchObject({ delivered: 2, acknowledged: 1 });
    const [first, second] = calls();
    expect([first, second]).toMatchObject([
      { attempt: 1, isTakeover: false },
      { attempt: 2, isTakeover: true, idempotencyKey: first!.idempotencyKey },
    ]);
  });

  describe('is dead-lettered, and does not run,', () => {
    const REJECTED = { redelivered: 0, rejected: 1, overLimit: 0 };

    it('when it has no id', async () => {
      await start();
      await publish(newOrder(), '');
      expect(await settled()).toEqual({ ...REJECTED, delivered: 1, acknowledged: 0 });
      expect(calls()).toEqual([]);
      expect(await reasonOfDeath()).toBe('rejected');
    });

    it('when it has the id of another order', async () => {
      await start();
      const id = randomUUID();
      await publish(newOrder(), id);
      await settled();
      await publish(newOrder(), id);
      expect(await settled()).toEqual({ ...REJECTED, delivered: 2, acknowledged: 1 });
      expect(calls()).toHaveLength(1);
      expect(await reasonOfDeath()).toBe('rejected');
    });

    it('when its outcome is unknown', async () => {
      await killOwner('reject');
      expect(await settled()).toEqual({
        ...REJECTED,
        delivered: 2,
        // By the death of the process.
        redelivered: 1,
        acknowledged: 0,
      });
      expect(calls()).toHaveLength(1);
      expect(await reasonOfDeath()).toBe('rejected');
    });
  });

  it('is requeued while the store is away, and handled afterwards', async () => {
    await start();
    redis.kill('SIGSTOP');
    await publish(newOrder());
    await redelivered();
    expect(calls()).toEqual([]);
    redis.kill('SIGCONT');
    expect(await settled()).toMatchObject({ acknowledged: 1, rejected: 0, overLimit: 0 });
    expect(calls()).toHaveLength(1);
  });

  it('is requeued when its process shuts down, and handled by another', async () => {
    await publishHeld();
    const [owner, leaving] = ownerFirst();
    leaving.signal('SIGTERM');
    await redelivered();
    await untilSettled(async () => (await queueDepth(broker, 'billing')).consumers === 1);
    await reached(0, 6);
    expect(await counted()).toMatchObject({ acknowledged: 0, rejected: 0 });
    owner.goOn();
    expect(await settled()).toMatchObject({ acknowledged: 6, rejected: 0, overLimit: 0 });
    expect(calls()).toHaveLength(1);
  });

  it('is requeued when its outcome could not be stored in time, and not handled again', async () => {
    const service = await start();
    await publish(heldOrder());
    await called(1);
    redis.kill('SIGSTOP');
    service.goOn();
    await redelivered();
    expect(await counted()).toMatchObject({ acknowledged: 0 });
    redis.kill('SIGCONT');
    expect(await settled()).toMatchObject({ acknowledged: 1, rejected: 0, overLimit: 0 });
    expect(calls()).toHaveLength(1);
  });

  it('is acknowledged when the method itself returns a Nack: the guide warns of it', async () => {
    const service = await start();
    const order = newOrder();
    await publish(order, order.id, 'order.nacked');
    await service.until((messages) => messages.some(({ said }) => said === 'returned a Nack'));
    expect(await settled()).toMatchObject({ delivered: 1, redelivered: 0, acknowledged: 1 });
    expect(service.messages.filter(({ said }) => said === 'returned a Nack')).toHaveLength(1);
  });
});

/** Two processes, one of which charges, and copies of its message at both. */
async function publishHeld(): Promise<void> {
  await start();
  await start();
  // In turn to one and the other.
  for (let copy = 1; copy <= 6; copy += 1) await publish(heldOrder());
  await called(1);
  await reached(0, 6);
}

/** The process that called the bank, and the other one. */
function ownerFirst(): readonly [TalkingProcess<ProgramMessage>, TalkingProcess<ProgramMessage>] {
  const [one, other] = services;
  return one!.messages.length > 1 ? [one!, other!] : [other!, one!];
}

/** Kills the process that charges. */
async function killOwner(
  onTakeover: ProgramSettings['onTakeover'],
): Promise<{ readonly heir: TalkingProcess<ProgramMessage> }> {
  await start({ onTakeover });
  await start({ onTakeover });
  await publish(heldOrder());
  await called(1);
  const [owner, heir] = ownerFirst();
  await owner.kill();
  return { heir };
}
