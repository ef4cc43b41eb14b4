import { Controller, Injectable, Logger, Post, type ExecutionContext } from '@nestjs/common';
import { Int, Mutation, Resolver } from '@nestjs/graphql';
import { ClientProxyFactory, MessagePattern, Transport } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type fc from 'fast-check';
import { lastValueFrom } from 'rxjs';
import { Idempotent, IdempotencyService } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { createIdempotencyContext, IdempotencyTestingModule } from 'nestjs-idempotency/testing';
import {
  givenKeys,
  givenParts,
  givenScopes,
  identityOf,
  OneToOne,
  SECRET,
  type GivenValue,
} from '../support/callers/caller-values.js';
import { platforms, type Platform } from '../support/http/combinations.js';
import { startApp } from '../support/http/start-app.js';
import { checkRandomly } from '../support/jest/random-runs.js';
import { isTestAll } from '../support/jest/test-all.js';
import { callingApp } from '../support/nest/calling-app.js';
import { freePort } from '../support/servers/free-port.js';
import { startGraphqlApp } from './graphql/support/graphql-app.js';
import { startConsumer } from './messages/support/start-consumer.js';
import { startSocketApp } from './socket/support/socket-app.js';

/** What the application names by mistake or not, in the request to come. */
const named: { scope: unknown; key: unknown } = { scope: 'alice', key: 'k' };
/** All runs of all handlers: each returns its own number. */
let runs = 0;
const run = () => (runs += 1);

const operation = 'Payments.pay';
const store = () => memoryStore({ maxRecords: 100_000 });
const key = () => named.key as string;
const scope = () => named.scope as string;
/** Otherwise a value that counts as none by mistake would be rejected, too. */
const caller = { scope, anonymous: 'shared' } as const;
const passing = { canActivate: () => true };

interface Started {
  /** @returns the number of the run whose outcome it is, or why there is none, for the client. */
  ask(): Promise<{ readonly run: unknown } | { readonly rejected: string }>;
  close(): Promise<unknown>;
}

/** A way in for callers and keys. */
interface Way {
  readonly start: () => Promise<Started>;
  readonly callers: fc.Arbitrary<GivenValue>;
  /** Who calls if the application names none; else how it is said that there must be one. */
  readonly none: 'shared' | RegExp;
  readonly takesEmptyList: boolean;
  /** Not where the key cannot come from a function. */
  readonly noKey?: RegExp;
  readonly emptyKey?: RegExp;
}

/** The code of an error, or Nest's message for one that clients must not see. */
function codeOf(error: unknown): string {
  const { code, message } = error as { readonly code?: string; readonly message: string };
  return code ?? message;
}

function http(platform: Platform, callerOf: 'scope' | 'user'): Way['start'] {
  @Controller()
  class Payments {
    @Post('pay')
    @Idempotent({ operation, key })
    pay() {
      return { run: run() };
    }
  }
  const guard = {
    canActivate(context: ExecutionContext) {
      const request = context.switchToHttp().getRequest<{ user?: object }>();
      request.user = { id: named.scope };
      return true;
    },
  };
  return async () => {
    const app = await startApp({
      platform,
      store: store(),
      controllers: [Payments],
      guard: callerOf === 'user' ? guard : passing,
      options: { caller: callerOf === 'user' ? { anonymous: 'shared' } : caller },
    });
    return {
      ask: async () => {
        const response = await fetch(`http://127.0.0.1:${app.port}/pay`, { method: 'POST' });
        const body = (await response.json()) as { run?: number; code?: string };
        return body.run === undefined ? { rejected: String(body.code) } : { run: body.run };
      },
      close: () => app.close(),
    };
  };
}

async function graphql(): Promise<Started> {
  @Resolver()
  class Payments {
    @Mutation(() => Int)
    @Idempotent({ operation, key })
    pay() {
      return run();
    }
  }
  const app = await startGraphqlApp({
    store: store(),
    resolvers: [Payments],
    guard: passing,
    options: { caller },
  });
  return {
    ask: async () => {
      const response = await fetch(`http://127.0.0.1:${app.port}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query: 'mutation { pay }' }),
      });
      const { data, errors } = (await response.json()) as {
        data?: { pay: number } | null;
        errors?: readonly { readonly extensions: { readonly code: string } }[];
      };
      return data ? { run: data.pay } : { rejected: String(errors?.[0]?.extensions.code) };
    },
    close: () => app.close(),
  };
}

async function gateway(): Promise<Started> {
  @WebSocketGateway()
  class Payments {
    @SubscribeMessage('pay')
    @Idempotent({ operation, key })
    pay() {
      return { event: 'paid', data: run() };
    }
  }
  const app = await startSocketApp({
    platform: 'ws',
    store: store(),
    gateways: [Payments],
    options: { caller },
  });
  const client = await app.connect();
  return {
    ask: async () => {
      const { event, data } = (await client.ask('pay', {})) as { event: string; data: any };
      return event === 'paid' ? { run: data } : { rejected: String(data.code ?? data.message) };
    },
    close: () => app.close(),
  };
}

async function message(): Promise<Started> {
  @Controller()
  class Payments {
    @MessagePattern('pay')
    @Idempotent({ operation, key, message: { consumer: 'billing' } })
    pay() {
      return run();
    }
  }
  const options = { host: '127.0.0.1', port: await freePort() };
  const app = await startConsumer(
    { transport: Transport.TCP, options },
    { controllers: [Payments], options: { store: store(), caller } },
  );
  const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
  return {
    ask: () =>
      lastValueFrom(client.send<number>('pay', {})).then(
        (value) => ({ run: value }),
        (error: unknown) => ({ rejected: codeOf(error) }),
      ),
    close: async () => {
      await client.close();
      await app.close();
    },
  };
}

/** What a call rejects with is all that there is: it is also what the application would log. */
function noted(calling: Promise<unknown>): ReturnType<Started['ask']> {
  return calling.then(
    (value) => ({ run: value }),
    (error: unknown) => {
      lines.push((error as Error).message);
      return { rejected: codeOf(error) };
    },
  );
}

async function method(): Promise<Started> {
  @Injectable()
  class Payments {
    @Idempotent({ operation, key, scope })
    async pay() {
      return Promise.resolve(run());
    }
  }
  const { nest } = await callingApp({ providers: [Payments] }, { store: store() });
  return { ask: () => noted(nest.get(Payments).pay()), close: () => nest.close() };
}

async function service(): Promise<Started> {
  const { nest } = await callingApp({}, { store: store() });
  const calls = nest.get(IdempotencyService, { strict: false });
  const ask = () => noted(calls.run({ operation, key: key(), scope: scope() }, run));
  return { ask, close: () => nest.close() };
}

/** The key that the next service gets stands for the record. */
async function testContext(): Promise<Started> {
  // Without the option, the caller is an unknown one.
  const given = () => (named.scope ?? null) as [];
  const ask = async () =>
    createIdempotencyContext({ operation, key: key(), scope: given() }).downstreamKey('bank');
  return { ask: () => noted(ask()), close: async () => undefined };
}

async function passThrough(): Promise<Started> {
  const imports = [IdempotencyTestingModule.passThrough()];
  const nest = await (await Test.createTestingModule({ imports }).compile()).init();
  const calls = nest.get(IdempotencyService, { strict: false });
  const ask = () =>
    calls.run({ operation, key: 'k', scope: scope() }, ({ downstreamKey }) =>
      downstreamKey('bank'),
    );
  return { ask: () => noted(ask()), close: () => nest.close() };
}

const MISSING = /^idempotency_key_missing$/;
const INVALID = /^idempotency_key_invalid$/;
const request = { callers: givenScopes, none: 'shared', takesEmptyList: false } as const;
const keyed = { noKey: MISSING, emptyKey: INVALID };
const required = { callers: givenScopes, none: /^idempotency_options_invalid$/ };
const unknown = /^idempotency_caller_unknown$/;

const ways: readonly (Way & { readonly name: string })[] = [
  ...platforms.flatMap((platform) => [
    { name: `HTTP on ${platform}`, start: http(platform, 'scope'), ...request, ...keyed },
    {
      name: `the user of a guard on ${platform}`,
      start: http(platform, 'user'),
      ...request,
      callers: givenParts,
    },
  ]),
  { name: 'GraphQL', start: graphql, ...request, ...keyed },
  { name: 'a gateway', start: gateway, ...request, ...keyed },
  {
    name: 'messages',
    start: message,
    callers: givenScopes,
    none: unknown,
    takesEmptyList: true,
    ...keyed,
  },
  {
    name: 'a method',
    start: method,
    callers: givenScopes,
    none: unknown,
    takesEmptyList: true,
    noKey: MISSING,
    emptyKey: MISSING,
  },
  { name: 'IdempotencyService.run()', start: service, ...required, takesEmptyList: false },
  { name: 'createIdempotencyContext()', start: testContext, ...required, takesEmptyList: true },
  { name: 'run() in a pass-through test', start: passThrough, ...required, takesEmptyList: false },
];

/** What was logged as an error, or thrown to a caller in the same process. */
const lines: string[] = [];

beforeEach(() => {
  named.scope = 'alice';
  named.key = 'k';
  const note = (line: unknown) =>
    void lines.push(line instanceof Error ? line.message : String(line));
  jest.spyOn(Logger.prototype, 'error').mockImplementation(note);
});
afterEach(() => {
  jest.restoreAllMocks();
});

/** What is wrong, if anything, with what a request with this value gets. */
async function mistakeOf(
  started: Started,
  { value, meaning }: GivenValue,
  member: 'scope' | 'key',
  none: 'shared' | RegExp,
  seen: OneToOne,
): Promise<string | undefined> {
  named[member] = value;
  lines.length = 0;
  const before = runs;
  const result = await started.ask();
  if ('run' in result) {
    if (meaning.kind === 'invalid') return `${meaning.type} is accepted`;
    if (meaning.kind === 'none' && none !== 'shared') return 'runs without a caller or key';
    return seen.compare(meaning.kind === 'none' ? 'none' : identityOf(meaning.parts), result.run);
  }
  const { rejected } = result;
  if (runs !== before) return `ran, and was rejected with ${rejected}`;
  const text = lines.join('\n');
  if (text.includes(SECRET)) return `the value itself is logged: ${text}`;
  if (meaning.kind === 'parts') return `a valid value is rejected: ${rejected} ${text}`;
  if (meaning.kind === 'none') {
    return none !== 'shared' && none.test(rejected) ? undefined : `none is rejected: ${rejected}`;
  }
  const isMistake = ['idempotency_options_invalid', 'Internal server error'].includes(rejected);
  if (!isMistake) return `the client is blamed: ${rejected}`;
  return text.includes(` ${meaning.type}. `) ? undefined : `not named: ${text}`;
}

async function check(
  way: Way,
  values: fc.Arbitrary<GivenValue>,
  member: 'scope' | 'key',
  none: 'shared' | RegExp,
): Promise<void> {
  const started = await way.start();
  const seen = new OneToOne();
  try {
    await checkRandomly({
      values,
      runs: isTestAll ? 1_000 : 50,
      atOnce: 50,
      check: async (given) => {
        const mistakes = [];
        for (const one of given) mistakes.push(await mistakeOf(started, one, member, none, seen));
        return mistakes;
      },
    });
  } finally {
    await started.close();
  }
}

describe.each(ways)('A value of any type, by $name', (way) => {
  it('is a caller of its own, none, or a mistake that is logged with its type [P27]', async () => {
    const callers = way.callers.map((given) => {
      const isEmpty = given.meaning.kind === 'parts' && given.meaning.parts.length === 0;
      if (!isEmpty || way.takesEmptyList) return given;
      return { ...given, meaning: { kind: 'invalid', type: 'an empty array' } as const };
    });
    // Where a caller has to be named, one that is missing is named as well.
    await check(way, callers, 'scope', way.none);
  }, 120_000);

  const { noKey, emptyKey } = way;
  if (noKey === undefined || emptyKey === undefined) return;

  it('is a key of its own, none, or a mistake that is logged with its type [P27]', async () => {
    await check(way, givenKeys, 'key', noKey);
  }, 120_000);

  it('is no key as an empty text', async () => {
    const started = await way.start();
    named.key = '';
    const result = await started.ask();
    await started.close();
    expect('rejected' in result && result.rejected).toMatch(emptyKey);
  });
});
