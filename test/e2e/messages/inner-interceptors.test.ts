import {
  Controller,
  UseInterceptors,
  type CallHandler,
  type INestMicroservice,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { afterEach, describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, Idempotent, type Recover, type Recovery } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { payloadField } from 'nestjs-idempotency/message';
import { from, lastValueFrom, map, merge, take, type Observable } from 'rxjs';
import { freePort } from '../../support/servers/free-port.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { startConsumer } from './support/start-consumer.js';

const LEASE_MS = 60_000;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function closedGate(): Gate {
  const gate = new Gate();
  gate.close();
  return gate;
}

/** An interceptor inside `@Idempotent()`; `isFirst`: around the first call of the handler. */
function inside(
  around: (next: CallHandler, isFirst: boolean) => Observable<unknown>,
): NestInterceptor {
  let calls = 0;
  return { intercept: (_, next) => around(next, (calls += 1) === 1) };
}

/** A consumer over TCP, in a process of its own as far as the library can see. */
async function startPrices(controller: Type, store = memoryStore()) {
  const options = {
    transport: Transport.TCP,
    options: { host: '127.0.0.1', port: await freePort() },
  } as const;
  const app: INestMicroservice = await startConsumer(options, {
    controllers: [controller],
    options: { store, limits: { shutdownTimeoutMs: 0 } },
  });
  const client = ClientProxyFactory.create(options);
  await client.connect();
  closers.push(
    () => app.close(),
    () => client.close(),
  );
  const ask = (id: string) => {
    const asked = lastValueFrom(client.send<unknown>('price.set', { id }));
    // A failed test leaves it behind.
    asked.catch(() => undefined);
    return asked;
  };
  return { app, ask };
}

describe('an inner interceptor that responds in place of a handler that is still running', () => {
  async function givenUp(end: () => unknown) {
    const timeout = closedGate();
    const gate = closedGate();
    const started = new Tally();
    const givesUpOnce = inside((next, isFirst) =>
      isFirst
        ? merge(next.handle(), from(timeout.pass()).pipe(map(() => 'fallback'))).pipe(take(1))
        : next.handle(),
    );
    @Controller()
    class Prices {
      @UseInterceptors(givesUpOnce)
      @Idempotent({ key: payloadField('id'), message: { consumer: 'prices' } })
      @MessagePattern('price.set')
      async set() {
        const run = started.add();
        await gate.pass();
        return run === 1 ? end() : `run ${run}`;
      }
    }
    const { app, ask } = await startPrices(Prices);
    const completed: boolean[] = [];
    app.get(IdempotencyEvents).subscribe((event) => {
      if (event.type === 'completed') completed.push(event.late);
    });
    const first = ask('a');
    await started.reached(1);
    timeout.open();
    expect(await first).toBe('fallback');
    expect(completed).toEqual([]);
    // It waits for the handler.
    const second = ask('a');
    gate.open();
    return { ask, started, second };
  }

  it('does not have its response stored as that of a handler that succeeds', async () => {
    const { ask, started, second } = await givenUp(() => 'run 1');
    const notKept = { code: 'idempotency_response_not_kept' };
    await expect(second).rejects.toMatchObject(notKept);
    await expect(ask('a')).rejects.toMatchObject(notKept);
    expect(started.count).toBe(1);
  });

  it('frees the key of a handler that fails', async () => {
    const { ask, started, second } = await givenUp(() => {
      throw new Error('planned');
    });
    expect(await second).toBe('run 2');
    expect(await ask('a')).toBe('run 2');
    expect(started.count).toBe(2);
  });
});

describe('"lease.onTakeover" of a message handler', () => {
  it('is called after the pipes, and inner interceptors get what it found', async () => {
    let now = Date.UTC(2026, 0, 1);
    const store = memoryStore({ now: () => now });
    const gate = closedGate();
    const started = new Tally();
    const steps: string[] = [];
    const find = (): Recovery => {
      steps.push('looked up');
      return { value: 'found' };
    };
    const pipe = {
      transform: (order: { id: string }) => {
        steps.push('piped');
        return order;
      },
    };
    const wrapping = inside((next) => next.handle().pipe(map((value) => ({ wrapped: value }))));
    @Controller()
    class Prices {
      @UseInterceptors(wrapping)
      @Idempotent({
        key: payloadField('id'),
        message: { consumer: 'prices' },
        lease: { durationMs: LEASE_MS, onTakeover: find },
      })
      @MessagePattern('price.set')
      async set(@Payload(pipe) _order: object) {
        started.add();
        await gate.pass();
        return 'run';
      }
    }
    const owner = await startPrices(Prices, store);
    const { ask } = await startPrices(Prices, store);
    const late = owner.ask('a');
    await started.reached(1);
    now += LEASE_MS;
    steps.length = 0;
    expect(await ask('a')).toEqual({ wrapped: 'found' });
    expect(steps).toEqual(['piped', 'looked up']);
    expect(await ask('a')).toEqual({ wrapped: 'found' });
    expect(steps).toEqual(['piped', 'looked up']);
    expect(started.count).toBe(1);
    gate.open();
    expect(await late).toEqual({ wrapped: 'found' });
  });

  it("is called before the first delivery, with recoverOn: 'always'", async () => {
    const started = new Tally();
    const found = new Map([['a', 'priced before']]);
    const onTakeover: Recover = ({ key, isTakeover }) =>
      found.has(key) ? { value: `${found.get(key)}, ${isTakeover}` } : 'run';
    @Controller()
    class Prices {
      @Idempotent({
        key: payloadField('id'),
        message: { consumer: 'prices' },
        lease: { onTakeover, recoverOn: 'always' },
      })
      @MessagePattern('price.set')
      set() {
        return `run ${started.add()}`;
      }
    }
    const { ask } = await startPrices(Prices, memoryStore());
    expect(await ask('a')).toBe('priced before, false');
    found.clear();
    expect(await ask('a')).toBe('priced before, false');
    expect(await ask('b')).toBe('run 1');
    expect(started.count).toBe(1);
  });
});
