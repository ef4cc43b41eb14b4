import {
  Catch,
  Controller,
  Injectable,
  Logger,
  Post,
  UnauthorizedException,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import { Idempotent, IdempotencyService, type OutcomeCodec } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { comparableArguments, fieldKey, socketCall } from '../../support/internals/call.js';
import { messageKey, failureActionOf } from '../../support/internals/message.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { afterTest } from '../../support/jest/after-test.js';
import { freePort } from '../../support/servers/free-port.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { optionAt } from '../../support/nest/option-at.js';

/** An async function for an option that must return synchronously. */
const rejecting = async (): Promise<never> => {
  throw new Error('planned: rejected');
};

/** Each unhandled rejection would end the process. */
const unhandled: unknown[] = [];
const note = (error: unknown) => void unhandled.push(error);

beforeAll(() => void process.on('unhandledRejection', note));
afterAll(() => void process.off('unhandledRejection', note));
afterEach(async () => {
  await new Promise(setImmediate);
  expect(unhandled.splice(0)).toEqual([]);
});

@Controller()
class ThingsController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }
}

describe.each(platforms)(
  'An option function that returns a rejected promise, on %s',
  (platform) => {
    async function started(options: object) {
      const app = await startApp({
        platform,
        store: memoryStore(),
        controllers: [ThingsController],
        options: options,
      });
      afterTest(() => app.close());
      return app.scenario();
    }

    it.each(['enabled', 'key', 'key.syntax', 'caller.scope', 'fingerprint'])(
      '%s: 500, and nothing runs',
      async (option) => {
        const scenario = await started(optionAt(option, rejecting));
        expect((await scenario.post('/things')).status).toBe(500);
        expect(scenario.executions).toBe(0);
      },
    );

    it.each<[string, object]>([
      ['fingerprint', { fingerprint: () => ({ digests: [rejecting(), rejecting()] }) }],
      ['a toJSON in fingerprint', { fingerprint: () => [1, { toJSON: rejecting }] }],
      [
        'caller.scope',
        { caller: { scope: () => ['a', rejecting(), rejecting()], anonymous: 'shared' } },
      ],
      [
        'caller.scope, later',
        { caller: { scope: async () => ['a', rejecting()], anonymous: 'shared' } },
      ],
    ])('%s: 500, and nothing runs, also with a nested promise', async (_, options) => {
      const scenario = await started(options);
      expect((await scenario.post('/things')).status).toBe(500);
      expect(scenario.executions).toBe(0);
    });

    it.each(['keep', 'retentionMs'])('outcome.%s: its default applies', async (option) => {
      const scenario = await started({ outcome: { [option]: rejecting } });
      const first = await scenario.post('/things');
      expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
      expectReplay(await scenario.post('/things'), first);
    });

    it('outcome.keep: a failure is kept, whatever the promise resolves to [P31]', async () => {
      const scenario = await started({ outcome: async () => false });
      scenario.plan = ['fail'];
      const first = await scenario.post('/things');
      expect(first.status).toBe(500);
      expectReplay(await scenario.post('/things'), first);
      expect(scenario.executions).toBe(1);
    });
  },
);

class TenantUnknown extends Error {}

@Catch(TenantUnknown)
class TenantUnknownFilter implements ExceptionFilter {
  catch(_: TenantUnknown, host: ArgumentsHost) {
    const response = host.switchToHttp().getResponse<Responding>();
    response.status(404).send('no such tenant');
  }
}

/** The response of Express or Fastify. */
interface Responding {
  status(status: number): { send(text: string): void };
}

describe.each(platforms)('A function that throws, on %s', (platform) => {
  const throwing = () => {
    throw new TypeError('planned: no secret-user');
  };
  const lines: unknown[][] = [];

  beforeEach(() => {
    lines.length = 0;
    jest
      .spyOn(Logger.prototype, 'error')
      .mockImplementation((...line: unknown[]) => void lines.push(line));
  });
  afterEach(() => {
    jest.restoreAllMocks();
  });

  async function posted({ caller, ...options }: { readonly caller?: object }) {
    const app = await startApp({
      platform,
      store: memoryStore(),
      controllers: [ThingsController],
      options: { ...options, caller: { anonymous: 'shared', ...caller } },
      configure: (nest) => nest.useGlobalFilters(new TenantUnknownFilter()),
    });
    const scenario = app.scenario();
    afterTest(() => app.close());
    const response = await scenario.post('/things');
    return { response, executions: scenario.executions };
  }

  it.each<[string, unknown]>([
    ['enabled', throwing],
    ['key', throwing],
    ['key.syntax', throwing],
    ['caller.scope', throwing],
    ['caller.scope', async () => throwing()],
    ['fingerprint', throwing],
  ])('as the option %s is reported with option and operation', async (option, given) => {
    const { response, executions } = await posted(optionAt(option, given));
    expectProblem(response, 'misconfigured');
    expect(executions).toBe(0);
    expect(response.body.toString()).not.toMatch(/planned|Things/);
    expect(lines).toHaveLength(1);
    const [message, stack] = lines[0] as string[];
    expect(message).toContain(`the option "${option}" of ThingsController.create failed.`);
    expect(message).not.toContain('secret');
    expect(stack).toMatch(/Caused by: TypeError: planned/);
  });

  it.each<[string, Error]>([
    ['a guard', new UnauthorizedException()],
    [
      'http-errors',
      Object.assign(new Error('Unauthorized'), { status: 401, statusCode: 401, expose: true }),
    ],
    [
      'Fastify',
      Object.assign(new Error('Unauthorized'), {
        name: 'FastifyError',
        code: 'FST_UNAUTHORIZED',
        statusCode: 401,
        constructor: { name: 'FastifyError' },
      }),
    ],
  ])('with an HTTP error, as %s does, sends its own response', async (_, rejection) => {
    const reject = () => {
      throw rejection;
    };
    for (const scope of [reject, async () => reject()]) {
      const { response } = await posted({ caller: { scope } });
      expect(response.status).toBe(401);
    }
    // Nest itself may log what was thrown.
    expect(lines.flat().join('\n')).not.toContain('option');
  });

  it('with an error of its own class leaves the response to an exception filter', async () => {
    const unknown = () => {
      throw new TenantUnknown();
    };
    for (const scope of [unknown, async () => unknown()]) {
      const { response, executions } = await posted({ caller: { scope } });
      expect(response).toMatchObject({ status: 404, text: 'no such tenant' });
      expect(executions).toBe(0);
    }
  });

  it.each([undefined, null])(
    'applies `caller.anonymous` when a scope returns %j',
    async (noOne) => {
      const { response } = await posted({ caller: { scope: () => noOne } });
      expect(response.status).toBe(201);
      const rejected = await posted({ caller: { scope: () => noOne, anonymous: 'reject' } });
      expectProblem(rejected.response, 'caller-unknown');
    },
  );
});

describe('An option function of a call that returns a rejected promise', () => {
  @Injectable()
  class Payments {
    runs = 0;

    @Idempotent({ key: rejecting as never })
    async byKey() {
      this.runs += 1;
    }

    @Idempotent({ key: () => 'k', scope: rejecting as never })
    async byScope() {
      this.runs += 1;
    }

    @Idempotent({ key: () => 'k', payload: rejecting })
    async byPayload() {
      this.runs += 1;
    }
  }

  let app: CallingApp;
  beforeAll(async () => {
    app = await callingApp({ providers: [Payments] });
  });
  afterAll(() => app.nest.close());

  it.each([
    ['key', 'byKey'],
    ['scope', 'byScope'],
    ['payload', 'byPayload'],
  ] as const)('%s: the call is rejected, and nothing runs', async (option, method) => {
    const payments = app.nest.get(Payments);
    await expect(payments[method]()).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringContaining(`option "${option}" of Payments.${method}`),
    });
    expect(payments.runs).toBe(0);
  });

  it.each(['keep', 'retentionMs'])('outcome.%s: its default applies', async (option) => {
    const service = app.nest.get(IdempotencyService, { strict: false });
    const call = { operation: option, key: 'k', scope: 'alice', outcome: { [option]: rejecting } };
    expect(await service.run(call, () => 'first')).toBe('first');
    expect(await service.run(call, () => 'second')).toBe('first');
  });

  it.each<[string, () => object]>([
    ['payload', () => ({ payload: rejecting() })],
    ['payload, inside', () => ({ payload: { digests: [rejecting(), rejecting()] } })],
    ['key', () => ({ key: rejecting() })],
    ['scope', () => ({ scope: rejecting() })],
    ['scope, inside', () => ({ scope: ['a', rejecting(), rejecting()] })],
  ])('%s of run(): the call is rejected, and nothing runs', async (_, given) => {
    const service = app.nest.get(IdempotencyService, { strict: false });
    const run = jest.fn();
    const call = { operation: 'given', key: 'k', scope: 'alice', ...given() };
    await expect(service.run(call, run)).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
    });
    expect(run).not.toHaveBeenCalled();
  });

  it('outcome.codec: a value that it cannot encode or decode is not kept', async () => {
    const service = app.nest.get(IdempotencyService, { strict: false });
    const call = { operation: 'codec', key: 'k', scope: 'alice' };
    const encoding = { name: 'own', encode: rejecting, decode: () => 1 } as unknown as OutcomeCodec;
    await expect(
      service.run({ ...call, outcome: { codec: encoding } }, () => 1),
    ).rejects.toMatchObject({
      code: 'idempotency_value_not_storable',
    });
    const encode = () => Buffer.from('1');
    const decoding = { name: 'own', encode, decode: rejecting } as unknown as OutcomeCodec;
    const read = { ...call, key: 'read', outcome: { codec: decoding } };
    await expect(service.run(read, () => 1)).rejects.toMatchObject({
      code: 'idempotency_response_not_kept',
    });
  });
});

describe('An option function of a message that returns a rejected promise', () => {
  const options = { key: { from: rejecting }, enabled: true, outcome: {} };
  const route = { operation: 'orders.place', options } as never;
  const context = {} as never;

  it('key: throws on each transport', async () => {
    const reported = /option "key" of orders\.place returned a promise/;
    expect(() => messageKey(context, route)).toThrow(reported);
    expect(() => fieldKey(context, {} as never, route)).toThrow(reported);
    const gone = new AbortController().signal;
    await expect(socketCall(context, route, gone, {} as never)).rejects.toThrow(reported);
  });

  it('an argument of GraphQL: an uploaded file is not awaited', () => {
    const args = { file: rejecting(), files: [rejecting()] };
    expect(() => JSON.stringify(comparableArguments(args))).toThrow(/cannot be compared/);
  });

  it('message.onFailure: the message is requeued, and it is reported why', () => {
    const failed: unknown[][] = [];
    const observer = { optionFailed: (...args: unknown[]) => void failed.push(args) };
    const action = failureActionOf(new Error(), context, rejecting as never, observer);
    expect(action).toBe('requeue');
    const message = expect.stringMatching(/"message.onFailure" must return .* returned a Promise/);
    expect(failed).toMatchObject([['message.onFailure', { message }]]);
  });
});

describe('A callback that rejects and is not awaited', () => {
  // For postgresStore: test/unit/postgres/deletion-schedule.test.ts.
  it('onConnectionError of redisStore', async () => {
    let isReported = (): void => undefined;
    const reported = new Promise<void>((resolve) => (isReported = resolve));
    const reporting: () => unknown = () => {
      isReported();
      return rejecting();
    };
    const store = redisStore({
      url: `redis://127.0.0.1:${await freePort()}`,
      onConnectionError: reporting,
    });
    await store.open().catch(() => undefined);
    await reported;
    await store.close();
  });
});
