import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { ExecutionContext, NestInterceptor } from '@nestjs/common';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import { useServer } from '../../support/servers/use-server.js';
import { startHybridApp, type Answer, type Asking } from './support/hybrid-app.js';

/** The effects, in their order. */
const ledger: unknown[] = [];
beforeEach(() => {
  ledger.length = 0;
});
const work = (content: unknown) => ledger.push(content);

const tenantInHeader = (context: ExecutionContext) => {
  const request =
    context.getType<string>() === 'graphql'
      ? context.getArgByIndex<{ req: object }>(2).req
      : context.switchToHttp().getRequest<object>();
  return (request as { headers: Record<string, string> }).headers['x-tenant'];
};

let keys = 0;
const newKey = () => `key-${(keys += 1)}`;

/** A key in every place where one of the contexts looks, and a tenant. */
function asking(key: unknown, tenant = 'acme'): Asking {
  return {
    headers: { 'x-request-key': String(key), 'x-tenant': tenant },
    content: { requestId: key, meta: { eventId: key }, tenant },
  };
}

describe.each(platforms)('one value for each context on %s', (platform) => {
  const app = useServer(() =>
    startHybridApp({
      platform,
      work,
      options: {
        store: memoryStore(),
        key: {
          from: {
            http: 'X-Request-Key',
            graphql: { arg: 'input.requestId' },
            rpc: { payload: 'meta.eventId' },
            ws: { payload: 'meta.eventId' },
          },
        },
        caller: {
          scope: {
            http: tenantInHeader,
            graphql: tenantInHeader,
            rpc: (context) => context.switchToRpc().getData<{ tenant: string }>().tenant,
            ws: (context) => context.switchToWs().getData<{ tenant: string }>().tenant,
          },
        },
      },
    }),
  );
  const each = async (test: (ask: (asking: Asking) => Promise<Answer>) => Promise<void>) => {
    for (const context of app.contexts) {
      ledger.length = 0;
      await test((given) => app.ask(context, given));
    }
  };

  it('names the key and its owner: a retry does not run, and another tenant has other keys', () =>
    each(async (ask) => {
      const key = newKey();
      const first = await ask(asking(key));
      expect(await ask(asking(key))).toEqual(first);
      expect(await ask(asking(key, 'globex'))).toEqual({ value: 2 });
      expect(await ask(asking(newKey()))).toEqual({ value: 3 });
      expect(ledger).toHaveLength(3);
    }));

  it('rejects a request whose path leads to nothing as one without a key', () =>
    each(async (ask) => {
      const { content } = asking(newKey());
      const without = { content: { ...content, requestId: null, meta: {} } };
      expect(await ask(without)).toMatchObject({ code: 'idempotency_key_missing' });
      expect(await ask({ content: { tenant: 'acme' } })).toMatchObject({
        code: 'idempotency_key_missing',
      });
      expect(ledger).toEqual([]);
    }));
});

describe('a path', () => {
  const app = useServer(() =>
    startHybridApp({
      platform: 'express',
      work,
      options: {
        store: memoryStore(),
        key: { from: { graphql: { arg: 'input.id' }, ...forAllOthers({ payload: 'id' }) } },
        caller: { anonymous: 'shared' },
        fingerprint: false,
      },
    }),
  );

  it.each(['http', 'graphql', 'rpc', 'ws'] as const)(
    'takes an integer for its digits, and nothing else but text: %s',
    async (context) => {
      const ask = (id: unknown) => app.ask(context, { content: { id } });
      expect(await ask('41')).toEqual(await ask(41));
      expect(ledger).toHaveLength(1);
      for (const id of ['', true, 4.5, 2 ** 53, ['41'], { secret: '41' }, 'k'.repeat(256)]) {
        const answer = await ask(id);
        expect([id, answer]).toMatchObject([id, { code: 'idempotency_key_invalid' }]);
        expect(JSON.stringify(answer)).not.toMatch(/secret|kkk|4\.5/);
      }
      expect(ledger).toHaveLength(1);
    },
  );

  it.each(['graphql', 'rpc', 'ws'] as const)(
    'is named to a sender whose key is missing or invalid: %s',
    async (context) => {
      const missing = await app.ask(context, { content: {} });
      expect(missing).toMatchObject({ text: expect.stringMatching(/\b(?:input\.)?id\\"/) });
      const invalid = await app.ask(context, { content: { id: true } });
      expect(invalid).toMatchObject({ text: expect.stringContaining('option \\"key.from\\"') });
    },
  );
});

function forAllOthers<Value>(value: Value) {
  return { http: value, rpc: value, ws: value };
}

describe.each(['__proto__', 'constructor', 'toString', 'id.length'])('the path %s', (payload) => {
  const app = useServer(() =>
    startHybridApp({
      platform: 'express',
      work,
      options: {
        store: memoryStore(),
        key: { from: { payload } },
        caller: { anonymous: 'shared' },
      },
    }),
  );

  it.each(['http', 'graphql', 'rpc', 'ws'] as const)(
    'finds no member of a prototype: %s',
    async (context) => {
      const answer = await app.ask(context, { content: { id: 'k' } });
      expect(answer).toMatchObject({ code: 'idempotency_key_missing' });
      expect(ledger).toEqual([]);
    },
  );
});

describe('a context without an entry', () => {
  const app = useServer(() =>
    startHybridApp({
      platform: 'express',
      work,
      options: {
        store: memoryStore(),
        key: { from: { http: 'X-Request-Key' } },
        caller: { scope: { rpc: () => 'acme' } },
      },
    }),
  );

  it('has the key and the caller of its transport, and is not unprotected', async () => {
    const key = newKey();
    const headers = { 'x-request-key': key, 'idempotency-key': newKey() };
    const content = { idempotencyKey: key };
    expect(await app.ask('http', { headers, content })).toMatchObject({
      code: 'idempotency_caller_unknown',
    });
    expect(await app.ask('ws', { content })).toMatchObject({ code: 'idempotency_caller_unknown' });
    expect(await app.ask('graphql', { content })).toMatchObject({
      code: 'idempotency_caller_unknown',
    });
    expect(await app.ask('rpc', { content })).toMatchObject({ code: 'idempotency_key_missing' });
    const known = { headers: { ...headers, authorization: 'alice' }, content };
    const first = await app.ask('http', known);
    expect(await app.ask('http', known)).toEqual(first);
    expect(await app.ask('graphql', known)).toEqual(await app.ask('graphql', known));
    expect(ledger).toHaveLength(2);
  });
});

describe('callers that share their keys', () => {
  const start = (caller: object) => () =>
    startHybridApp({ platform: 'express', work, options: { store: memoryStore(), caller } });
  const shared = useServer(start({ scope: () => null, anonymous: 'shared' }));
  const unknownAlone = useServer(start({ anonymous: 'shared' }));
  const send = (app: typeof shared, authorization: string, key: string) =>
    app.ask('http', { headers: { authorization, 'idempotency-key': key }, content: {} });

  it('do so where no caller is known, also if they are signed in', async () => {
    const key = newKey();
    const first = await send(shared, 'alice', key);
    expect(await send(shared, 'bob', key)).toEqual(first);
    expect(ledger).toHaveLength(1);
  });

  it('do not by "caller.anonymous" alone: a signed-in one is known', async () => {
    const key = newKey();
    const first = await send(unknownAlone, 'alice', key);
    expect(await send(unknownAlone, 'bob', key)).not.toEqual(first);
    expect(ledger).toHaveLength(2);
  });
});

describe.each(platforms)('an async context around next.handle() on %s', (platform) => {
  const tenants = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  /** As a handler without `@Idempotent()` sees it: Nest calls the handler in the context in which it was asked for. */
  const around: NestInterceptor = {
    intercept: (_, next) => tenants.run('acme', () => next.handle()),
  };

  describe.each([true, false])('with fastPath: %s', (fastPath) => {
    const app = useServer(() =>
      startHybridApp({
        platform,
        work: () => seen.push(tenants.getStore()),
        options: {
          store: memoryStore(),
          key: { from: () => `${String(tenants.getStore())}-${newKey()}` },
          caller: { scope: () => tenants.getStore() },
          http: { fastPath },
        },
        around,
      }),
    );

    it('is that of key, caller and handler', async () => {
      seen.length = 0;
      for (const context of app.contexts) {
        expect(await app.ask(context, { content: {} })).toEqual({ value: seen.length });
      }
      expect(seen).toEqual(app.contexts.map(() => 'acme'));
    });
  });
});
