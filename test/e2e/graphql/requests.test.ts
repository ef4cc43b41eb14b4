import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  ClassSerializerInterceptor,
  type ExecutionContext,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import {
  Args,
  type CustomScalar,
  Field,
  InputType,
  Int,
  Mutation,
  ObjectType,
  Query,
  ResolveField,
  Resolver,
  ResolveReference,
  Scalar,
  Subscription,
} from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Idempotent } from 'nestjs-idempotency';
import { buildSchema, parse, validate } from 'graphql';
import type { Context } from 'graphql-ws';
import { type RawData, WebSocket } from 'ws';
import { type Scenario, SCENARIO_HEADER } from '../../support/http/scenario.js';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { projectRoot } from '../../support/project-root.js';
import { useServer } from '../../support/servers/use-server.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { declared } from '../../integration/nest/support/declared.js';
import {
  ask,
  type Asking,
  codesIn,
  type GraphqlResponse,
  InScenario,
  requestIn,
  startGraphqlApp,
} from './support/graphql-app.js';
import { Charge, charged, PaymentsResolver } from './support/payments.resolver.js';

const tenantAndUser = (context: ExecutionContext) => {
  const { tenant, id } = requestIn(context).user as { tenant: string; id: string };
  return [tenant, id];
};

@Resolver()
class CallersResolver {
  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  byUser(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ caller: { scope: tenantAndUser } })
  byTenant(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ caller: { anonymous: 'ignore' } })
  unprotected(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ caller: { anonymous: 'shared' } })
  shared(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ key: { uniqueFor: 'principal' } })
  overAllOperations(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ key: { uniqueFor: 'principal' } })
  overAllOperationsToo(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }
}

/** Yields a promise of each file, as graphql-upload does. */
class UploadedFile {
  readonly name!: string;
}

@Scalar('Upload', () => UploadedFile)
class UploadScalar implements CustomScalar<unknown, unknown> {
  parseValue = (name: unknown) => Promise.resolve({ name });
  parseLiteral = () => Promise.resolve({ name: 'literal' });
  serialize = (value: unknown) => value;
}

class AnyJson {
  readonly value: unknown;
}

/** Parses an object to a Map, as some scalars do. */
@Scalar('Json', () => AnyJson)
class JsonScalar implements CustomScalar<unknown, unknown> {
  parseValue = (value: unknown) =>
    Array.isArray(value) ? value : new Map(Object.entries(value as object));
  parseLiteral = () => null;
  serialize = (value: unknown) => value;
}

/** Holds its amount in a private field, as money libraries do. */
class Money {
  readonly #cents: number;

  constructor(cents: number) {
    this.#cents = cents;
  }

  get cents() {
    return this.#cents;
  }

  get idempotencyKey() {
    return undefined;
  }
}

@Scalar('Money', () => Money)
class MoneyScalar implements CustomScalar<unknown, unknown> {
  parseValue = (cents: unknown) => new Money(cents as number);
  parseLiteral = () => null;
  serialize = (value: unknown) => value;
}

const money = { type: () => Money };

@InputType()
class LineInput {
  @Field(() => String)
  sku!: string;

  @Field(() => Int, { defaultValue: 1 })
  count!: number;
}

@InputType()
class OrderInput {
  @Field(() => [LineInput])
  lines!: LineInput[];

  @Field(() => String, { nullable: true })
  sentAt?: string;

  @Field(() => String, { nullable: true })
  idempotencyKey?: string;
}

const file = { type: () => UploadedFile };

@Resolver()
class OrdersResolver {
  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  order(
    @InScenario() scenario: Scenario,
    @Args('input') _: OrderInput,
    @Args('idempotencyKey', { type: () => String, nullable: true }) _key: string | null,
  ) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ fingerprint: { exclude: ['input.sentAt'] } })
  orderWhenever(@InScenario() scenario: Scenario, @Args('input') _: OrderInput) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ fingerprint: ({ path, body }) => [path, Object.keys(body as object)] })
  orderWhatever(@InScenario() scenario: Scenario, @Args('input') _: OrderInput) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ fingerprint: ({ body }) => (body as { lines?: unknown }).lines })
  orderNothing(@InScenario() scenario: Scenario, @Args('input') _: OrderInput) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  upload(@InScenario() scenario: Scenario, @Args('file', file) _: unknown) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ fingerprint: { exclude: ['file'] } })
  uploadAny(
    @InScenario() scenario: Scenario,
    @Args('file', file) _: unknown,
    @Args('digest') _digest: string,
  ) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  remind(@InScenario() scenario: Scenario, @Args('at', { type: () => Date }) _: Date) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  pay(@InScenario() scenario: Scenario, @Args('input', money) _: Money) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ fingerprint: { exclude: ['input.note'] } })
  payWithoutNote(@InScenario() scenario: Scenario, @Args('input', money) _: Money) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ fingerprint: { include: ['input.amount'] } })
  payAmount(@InScenario() scenario: Scenario, @Args('input', money) _: Money) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  note(@InScenario() scenario: Scenario, @Args('json', { type: () => AnyJson }) _: unknown) {
    return charged(scenario, 0);
  }
}

const app = useServer(() =>
  startGraphqlApp({
    store: memoryStore(),
    resolvers: [
      PaymentsResolver,
      CallersResolver,
      OrdersResolver,
      UploadScalar,
      JsonScalar,
      MoneyScalar,
    ],
  }),
);

/** Sends the document twice, without a key header unless one is given, and returns both responses. */
async function askTwice(scenario: Scenario, document: string, asking: Asking = { key: null }) {
  const first = await ask(scenario, document, asking);
  return { first, second: await ask(scenario, document, asking) };
}

describe('the key of a mutation field', () => {
  const fields = '{ execution amount }';

  it.each([
    [
      'its argument "idempotencyKey"',
      (key: string) => `chargeByArgument(amount: 5, idempotencyKey: "${key}")`,
    ],
    [
      'the member "idempotencyKey" of its argument "input"',
      (key: string) => `chargeByInput(input: { amount: 5, idempotencyKey: "${key}" })`,
    ],
    [
      'the result of the function given as the option "key"',
      (key: string) => `chargeByFunction(input: { amount: 5, clientMutationId: "${key}" })`,
    ],
    [
      'the member that the option "key" names by payloadField()',
      (key: string) => `chargeByPath(input: { amount: 5, clientMutationId: "${key}" })`,
    ],
  ])('is %s', async (_, field) => {
    const scenario = app.scenario();
    const document = `mutation { done: ${field(scenario.key)} ${fields} }`;
    const { first, second } = await askTwice(scenario, document);
    expect(first).toEqual({ status: 200, data: { done: { execution: 1, amount: 5 } } });
    expect(second).toEqual(first);
    const other = await ask(scenario, `mutation { done: ${field(randomUUID())} ${fields} }`, {
      key: null,
    });
    expect(other.data.done.execution).toBe(2);
    expect(scenario.executions).toBe(2);
  });

  it('may be a variable, or part of one', async () => {
    const document = `mutation ($key: String!, $input: ChargeInput!) {
      a: chargeByArgument(amount: 1, idempotencyKey: $key) ${fields}
      b: chargeByInput(input: $input) ${fields}
    }`;
    const scenario = app.scenario();
    const { key } = scenario;
    const variables = { key, input: { amount: 2, idempotencyKey: key } };
    const { first, second } = await askTwice(scenario, document, { key: null, variables });
    expect(first.data).toMatchObject({ a: { amount: 1 }, b: { amount: 2 } });
    expect(second).toEqual(first);
    expect(scenario.executions).toBe(2);
  });

  it('does not depend on its notation or on the position of the field', async () => {
    const scenario = app.scenario();
    const { key } = scenario;
    const asked = (document: string, variables = {}) =>
      ask(scenario, document, { key: null, variables });
    const charge = (text: string) => `charge: chargeByArgument(amount: 5, idempotencyKey: ${text})`;
    const responses = [
      await asked(`mutation { ${charge(`"${key}"`)} ${fields} }`),
      await asked(`mutation { ${charge(`"""${key}"""`)} ${fields} }`),
      await asked(
        `mutation ($key: String = "${key}", $amount: Int!) { ...Paying }
         fragment Paying on Mutation {
           charge: chargeByArgument(amount: $amount, idempotencyKey: $key) ${fields}
         }`,
        { amount: 5 },
      ),
      await asked(
        `mutation { ${charge(`"${key}"`)} { execution } ${charge(`"${key}"`)} { amount } }`,
      ),
    ];
    expect(responses.map(({ data }) => data)).toEqual(
      responses.map(() => ({ charge: { execution: 1, amount: 5 } })),
    );
    expect(scenario.executions).toBe(1);
  });

  it('does not depend on the alias when the field itself carries it', async () => {
    const scenario = app.scenario();
    const paid = (alias: string) =>
      ask(
        scenario,
        `mutation { ${alias}: chargeByArgument(amount: 5, idempotencyKey: "${scenario.key}") ${fields} }`,
        { key: null },
      );
    expect((await paid('once')).data.once.execution).toBe(1);
    expect((await paid('again')).data.again.execution).toBe(1);
  });

  it('is taken from the argument of the field before its input', async () => {
    const scenario = app.scenario();
    const charge = (argument: string, member: string) =>
      ask(
        scenario,
        `mutation { charge: chargeByEither(
          idempotencyKey: "${argument}", input: { amount: 5, idempotencyKey: "${member}" }
        ) { execution } }`,
        { key: null },
      );
    const [one, other] = [randomUUID(), randomUUID()];
    const first = await charge(one, other);
    expect(await charge(one, randomUUID())).toEqual(first);
    expect((await charge(other, one)).data).toEqual({ charge: { execution: 2 } });
  });

  it('is taken from the argument of the field before the header', async () => {
    const scenario = app.scenario();
    const [argument, header] = [randomUUID(), randomUUID()];
    const charge = async (argumentKey: string | null, key: string) => {
      const response = await ask(
        scenario,
        `mutation ($argument: String) {
          chargeByArgument(amount: 5, idempotencyKey: $argument) { execution }
        }`,
        { variables: { argument: argumentKey }, key },
      );
      return response.data.chargeByArgument.execution as number;
    };
    expect(await charge(argument, header)).toBe(1);
    expect(await charge(argument, randomUUID())).toBe(1);
    expect(await charge(null, header)).toBe(2);
    expect(await charge(null, header)).toBe(2);
  });

  it('may be an integer, which equals its decimal digits', async () => {
    const scenario = app.scenario();
    const number = Math.floor(Math.random() * 2 ** 31);
    const document = `mutation { chargeByNumber(idempotencyKey: ${number}) { execution } }`;
    const { first, second } = await askTwice(scenario, document);
    expect(second).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('is reported as missing with every way to give it', async () => {
    const scenario = app.scenario();
    const response = await ask(
      scenario,
      'mutation { charge(amount: 5) { execution } chargeByOtherHeader { execution } }',
      { key: null },
    );
    expect(codesIn(response)).toEqual({
      charge: 'idempotency_key_missing',
      chargeByOtherHeader: 'idempotency_key_missing',
    });
    const [first, second] = response.errors!.map(({ message }) => message);
    expect(first).toContain('"idempotencyKey"');
    expect(first).toContain('"input"');
    expect(first).toContain('Idempotency-Key');
    expect(second).toContain('X-Request-Key');
    expect(response.status).toBe(200);
    expect(scenario.executions).toBe(0);
  });

  it('comes only from the function given as the option "key"', async () => {
    const scenario = app.scenario();
    const response = await ask(
      scenario,
      `mutation { chargeByFunction(input: { amount: 5, idempotencyKey: "${scenario.key}" })
        { execution } }`,
    );
    expect(codesIn(response)).toEqual({ chargeByFunction: 'idempotency_key_missing' });
    expect(response.errors![0]!.message).toContain('The function given as the option "key"');
    expect(scenario.executions).toBe(0);
  });

  const long = 'k'.repeat(256);
  it.each([
    ['is empty', 'chargeByArgument(amount: 5, idempotencyKey: "")'],
    ['is too long', `chargeByArgument(amount: 5, idempotencyKey: "${long}")`],
    ['is too long for the route', `chargeByOtherHeader(idempotencyKey: "${'k'.repeat(41)}")`],
    ['is not a string', 'chargeById(idempotencyKey: ["a-list"])'],
    ['has the wrong syntax', 'chargeByUuid(idempotencyKey: "no-uuid")'],
  ])('is rejected when it %s', async (_, field) => {
    const scenario = app.scenario();
    // A valid key elsewhere does not help.
    const response = await ask(scenario, `mutation { ${field} { execution } }`);
    expect(Object.values(codesIn(response))).toEqual(['idempotency_key_invalid']);
    expect(scenario.executions).toBe(0);
  });
});

describe('the key in the header', () => {
  const halves = ['"one', 'two"'];
  const twoCharges = `mutation {
    first: charge(amount: 1) { execution amount }
    second: charge(amount: 2) { execution amount }
  }`;

  it('becomes one key for each field of the document, by response name', async () => {
    const scenario = app.scenario();
    const { first, second } = await askTwice(scenario, twoCharges, { key: scenario.key });
    expect(first.data).toEqual({
      first: { execution: 1, amount: 1 },
      second: { execution: 2, amount: 2 },
    });
    expect(second).toEqual(first);
    expect(scenario.executions).toBe(2);
  });

  it('becomes another key under another alias', async () => {
    const scenario = app.scenario();
    const { key } = scenario;
    await ask(scenario, 'mutation { one: charge(amount: 1) { execution } }', { key });
    await ask(scenario, 'mutation { two: charge(amount: 1) { execution } }', { key });
    await ask(scenario, 'mutation { charge(amount: 1) { execution } }', { key });
    expect(scenario.executions).toBe(3);
  });

  it('has the length limit of an argument', async () => {
    const scenario = app.scenario();
    const document = 'mutation { charge(amount: 1) { execution } }';
    const { errors } = await ask(scenario, document, { key: 'k'.repeat(256) });
    expect(errors).toMatchObject([{ extensions: { code: 'idempotency_key_invalid' } }]);
    expect(scenario.executions).toBe(0);
  });

  it('comes from the header that the option "key" names', async () => {
    const scenario = app.scenario();
    const document = 'mutation { chargeByOtherHeader { execution } }';
    const asking = { key: scenario.key, keyHeader: 'x-request-key' };
    const { first, second } = await askTwice(scenario, document, asking);
    expect(first.data.chargeByOtherHeader.execution).toBe(1);
    expect(second).toEqual(first);
  });

  it.each<[string, (request: IncomingMessage) => object, string[]]>([
    ['Fastify’s', (raw) => ({ headers: raw.headers, raw }), halves],
    // Node has joined the lines; that there were two is lost.
    ['one that was made by hand', ({ headers }) => ({ headers }), ['one', 'two']],
  ])('is read from the request in the context, also with %s', async (_, requestOf, doubled) => {
    const other = await startGraphqlApp({
      store: memoryStore(),
      resolvers: [PaymentsResolver],
      options: { caller: { anonymous: 'shared' } },
      guard: { canActivate: () => true },
      driver: {
        context: ({ req }: { readonly req: IncomingMessage }) => ({ req: requestOf(req) }),
      },
    });
    try {
      const scenario = other.scenario();
      const { key } = scenario;
      const { first, second } = await askTwice(scenario, twoCharges, { key });
      expect(first.data).toMatchObject({ first: { execution: 1 }, second: { execution: 2 } });
      expect(second).toEqual(first);
      expect(codesIn(await ask(scenario, twoCharges, { key: doubled }))).toEqual({
        first: 'idempotency_key_invalid',
        second: 'idempotency_key_invalid',
      });
    } finally {
      await other.close();
    }
  });

  it.each<[string, string | string[]]>([
    ['is sent in two lines, which Node joins into a valid one', halves],
    ['is malformed', '"one'],
  ])('is rejected when it %s', async (_, key) => {
    const scenario = app.scenario();
    const response = await ask(scenario, 'mutation { charge(amount: 1) { execution } }', { key });
    expect(codesIn(response)).toEqual({ charge: 'idempotency_key_invalid' });
    expect(scenario.executions).toBe(0);
  });
});

describe('the caller of a mutation', () => {
  async function execution(scenario: Scenario, field: string, as: string | null): Promise<number> {
    const document = `mutation { field: ${field} { execution } }`;
    const { data } = await ask(scenario, document, { as });
    return data.field.execution as number;
  }

  it('is the user that the guard sets on the request', async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'byUser', 'alice')).toBe(1);
    expect(await execution(scenario, 'byUser', 'bob')).toBe(2);
    expect(await execution(scenario, 'byUser', 'alice')).toBe(1);
    expect(await execution(scenario, 'byUser', 'bob')).toBe(2);
  });

  it('is what the option "scope" returns, tenant included', async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'byTenant', 'bob')).toBe(1);
    expect(await execution(scenario, 'byTenant', 'robert')).toBe(2);
    expect(await execution(scenario, 'byTenant', 'bob')).toBe(1);
  });

  it('is rejected when it cannot be determined', async () => {
    const scenario = app.scenario();
    const document = 'mutation { byUser { execution } }';
    const response = await ask(scenario, document, { as: null });
    expect(codesIn(response)).toEqual({ byUser: 'idempotency_caller_unknown' });
    expect(response.errors![0]!.message).toContain('"caller.anonymous"');
    expect(scenario.executions).toBe(0);
  });

  it('runs unprotected or in a shared scope when unknown, as "caller.anonymous" says', async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'unprotected', null)).toBe(1);
    expect(await execution(scenario, 'unprotected', null)).toBe(2);
    expect(await execution(scenario, 'shared', null)).toBe(3);
    expect(await execution(scenario, 'shared', null)).toBe(3);
    expect(await execution(scenario, 'shared', 'alice')).toBe(4);
  });

  it("has one key for all mutations with key.uniqueFor: 'principal'", async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'overAllOperations', 'alice')).toBe(1);
    const other = await ask(scenario, 'mutation { field: overAllOperationsToo { execution } }');
    expect(codesIn(other)).toEqual({ field: 'idempotency_key_reused' });
  });

  it('is the user of a custom context', async () => {
    const other = await startGraphqlApp({
      store: memoryStore(),
      resolvers: [CallersResolver],
      guard: { canActivate: () => true },
      driver: {
        context: ({ req }: { req: { headers: Record<string, string> } }) => ({
          req,
          user: { sub: req.headers.authorization },
        }),
      },
    });
    try {
      const scenario = other.scenario();
      const asked = (as: string) => execution(scenario, 'byUser', as);
      expect([await asked('carol'), await asked('dave'), await asked('carol')]).toEqual([1, 2, 1]);
    } finally {
      await other.close();
    }
  });
});

describe('the content of a mutation', () => {
  const order = (scenario: Scenario, lines: string, more = '', name = 'order') =>
    ask(scenario, `mutation { field: ${name}(input: { lines: ${lines} ${more} }) { execution } }`);

  it('is equal in another notation: other member order, explicit defaults, variables', async () => {
    const scenario = app.scenario();
    const first = await order(scenario, '[{ sku: "a", count: 1 }, { sku: "b" }]');
    expect(first.data).toEqual({ field: { execution: 1 } });
    expect(await order(scenario, '[{ count: 1, sku: "a" }, { count: 1, sku: "b" }]')).toEqual(
      first,
    );
    const byVariable = await ask(
      scenario,
      'mutation ($order: OrderInput!) { field: order(input: $order) { execution } }',
      { variables: { order: { lines: [{ sku: 'a' }, { sku: 'b' }] } } },
    );
    expect(byVariable).toEqual(first);
  });

  it.each([
    ['another item', '[{ sku: "b" }]', ''],
    ['another order of the items', '[{ sku: "b" }, { sku: "a" }]', ''],
    ['one more member', '[{ sku: "a" }, { sku: "b" }]', 'sentAt: "now"'],
  ])('differs with %s', async (_, lines, more) => {
    const scenario = app.scenario();
    await order(scenario, '[{ sku: "a" }, { sku: "b" }]');
    expect(codesIn(await order(scenario, lines, more))).toEqual({
      field: 'idempotency_key_reused',
    });
    expect(scenario.executions).toBe(1);
  });

  it('does not include the key, wherever the key is given', async () => {
    const scenario = app.scenario();
    const key = `idempotencyKey: "${scenario.key}"`;
    const byArgument = `mutation { field: order(input: { lines: [] }, ${key}) { execution } }`;
    const byInput = `mutation { field: order(input: { lines: [], ${key} }) { execution } }`;
    const first = await ask(scenario, byArgument);
    expect(first.data).toEqual({ field: { execution: 1 } });
    expect(await ask(scenario, byInput)).toEqual(first);
  });

  it('is what the option "fingerprint" selects or returns', async () => {
    const scenario = app.scenario();
    const { data } = await order(scenario, '[]', 'sentAt: "now"', 'orderWhenever');
    expect(data.field.execution).toBe(1);
    expect((await order(scenario, '[]', 'sentAt: "then"', 'orderWhenever')).data).toEqual(data);
    expect(codesIn(await order(scenario, '[{ sku: "a" }]', '', 'orderWhenever'))).toEqual({
      field: 'idempotency_key_reused',
    });
    const other = app.scenario();
    const whatever = await order(other, '[]', '', 'orderWhatever');
    expect(await order(other, '[{ sku: "a" }]', '', 'orderWhatever')).toEqual(whatever);
  });

  it('is rejected when the function given as "fingerprint" returns undefined', async () => {
    const scenario = app.scenario();
    const response = await order(scenario, '[{ sku: "a" }]', '', 'orderNothing');
    expect(response.errors![0]!.message).toContain(
      'option "fingerprint" of OrdersResolver.orderNothing returned undefined',
    );
    expect(scenario.executions).toBe(0);
  });

  it('is rejected when it has an uploaded file, because two files would compare as equal', async () => {
    const scenario = app.scenario();
    const document = 'mutation ($file: Upload!) { field: upload(file: $file) { execution } }';
    const response = await ask(scenario, document, { variables: { file: 'photo' } });
    expect(codesIn(response)).toEqual({ field: 'idempotency_content_invalid' });
    expect(response.errors![0]!.message).toContain('"fingerprint"');
    expect(scenario.executions).toBe(0);
  });

  it('is rejected when a scalar has parsed it to a Map', async () => {
    const scenario = app.scenario();
    const document = 'mutation ($json: Json!) { field: note(json: $json) { execution } }';
    const response = await ask(scenario, document, { variables: { json: { a: 1 } } });
    expect(codesIn(response)).toEqual({ field: 'idempotency_content_invalid' });
    expect(scenario.executions).toBe(0);
  });

  it.each(['pay', 'payWithoutNote', 'payAmount'])(
    'is rejected when it has an instance with private fields, because two would compare as equal: %s',
    async (field) => {
      const scenario = app.scenario();
      const document = `mutation ($money: Money!) { field: ${field}(input: $money) { execution } }`;
      for (const cents of [500, 99_900]) {
        const response = await ask(scenario, document, { variables: { money: cents } });
        expect(codesIn(response)).toEqual({ field: 'idempotency_content_invalid' });
      }
      expect(scenario.executions).toBe(0);
    },
  );

  it('may have a date', async () => {
    const scenario = app.scenario();
    const remind = (at: string) =>
      ask(scenario, `mutation { field: remind(at: "${at}") { execution } }`);
    const first = await remind('2026-11-22T00:00:00.000Z');
    expect(first.data).toEqual({ field: { execution: 1 } });
    expect(await remind('2026-11-22T01:00:00.000+01:00')).toEqual(first);
    expect(codesIn(await remind('2026-11-23T00:00:00.000Z'))).toEqual({
      field: 'idempotency_key_reused',
    });
  });

  it('may exclude an uploaded file', async () => {
    const scenario = app.scenario();
    const document = `mutation ($file: Upload!, $digest: String!) {
      field: uploadAny(file: $file, digest: $digest) { execution }
    }`;
    const send = (file: string, digest: string) =>
      ask(scenario, document, { variables: { file, digest } });
    const first = await send('photo', 'sha');
    expect(first.data).toEqual({ field: { execution: 1 } });
    expect(await send('photo again', 'sha')).toEqual(first);
    expect(codesIn(await send('photo', 'another'))).toEqual({ field: 'idempotency_key_reused' });
  });

  it.each([
    ['is rejected when it is nested too deeply', 20_000, 'idempotency_content_invalid'],
    ['may be deeply nested', 500, undefined],
  ])('%s', async (_, depth, code) => {
    const scenario = app.scenario();
    const query = 'mutation ($json: Json!) { field: note(json: $json) { execution } }';
    // Written by hand: JSON.stringify would overflow the stack before the server has to reject it.
    const json = '['.repeat(depth) + ']'.repeat(depth);
    const body = `{"query":${JSON.stringify(query)},"variables":{"json":${json}}}`;
    const response = await ask(scenario, query, { json: undefined, body });
    expect(codesIn(response).field).toBe(code);
    expect(scenario.executions).toBe(code === undefined ? 1 : 0);
  });
});

/** A graphql-ws connection whose messages all seem to have the header. */
class GraphqlSocket {
  private asked = 0;

  private constructor(private readonly socket: WebSocket) {}

  static async open(port: number, { id, key }: Scenario): Promise<GraphqlSocket> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/graphql`, 'graphql-transport-ws', {
      headers: { [SCENARIO_HEADER]: id, authorization: 'Bearer alice', 'idempotency-key': key },
    });
    await once(socket, 'open');
    const acknowledged = once(socket, 'message');
    socket.send(JSON.stringify({ type: 'connection_init' }));
    await acknowledged;
    return new GraphqlSocket(socket);
  }

  ask(query: string): Promise<GraphqlResponse> {
    this.asked += 1;
    const id = String(this.asked);
    return new Promise((resolve) => {
      const listen = (data: RawData) => {
        const message = JSON.parse((data as Buffer).toString()) as {
          readonly id: string;
          readonly type: string;
          readonly payload: GraphqlResponse;
        };
        if (message.id !== id || message.type !== 'next') return;
        this.socket.off('message', listen);
        resolve(message.payload);
      };
      this.socket.on('message', listen);
      this.socket.send(JSON.stringify({ id, type: 'subscribe', payload: { query } }));
    });
  }

  async close(): Promise<void> {
    const closed = once(this.socket, 'close');
    this.socket.close();
    await closed;
  }
}

interface Extra {
  readonly request?: object;
}

describe('a mutation over a WebSocket', () => {
  const app = useServer(() =>
    startGraphqlApp({
      store: memoryStore(),
      resolvers: [PaymentsResolver],
      driver: {
        subscriptions: { 'graphql-ws': true },
        // Many applications set this, so that guards find a request there.
        context: (context: Partial<Context<never, Extra>>) => ({ req: context.extra?.request }),
      },
    }),
  );

  it('reads its key from an argument, and replays', async () => {
    const scenario = app.scenario();
    const socket = await GraphqlSocket.open(app.port, scenario);
    const key = `idempotencyKey: "${scenario.key}"`;
    const document = `mutation {
      a: chargeByArgument(amount: 5, ${key}) { execution }
      b: chargeByInput(input: { amount: 5, ${key} }) { execution }
    }`;
    const first = await socket.ask(document);
    expect(first).toEqual({ data: { a: { execution: 1 }, b: { execution: 2 } } });
    expect(await socket.ask(document)).toEqual(first);
    expect(scenario.executions).toBe(2);
    await socket.close();
  });

  it('ignores a key header of the request that opened the connection', async () => {
    const scenario = app.scenario();
    const socket = await GraphqlSocket.open(app.port, scenario);
    const response = await socket.ask('mutation { charge(amount: 5) { execution } }');
    expect(codesIn(response)).toEqual({ charge: 'idempotency_key_missing' });
    expect(scenario.executions).toBe(0);
    await socket.close();
  });
});

@ObjectType()
class Thing {
  @Field(() => Int)
  id!: number;
}

/** A resolver with one method. */
const resolver = (name: string, method: string, ...decorators: MethodDecorator[]) =>
  declared(name, [Resolver()], { [method]: decorators });

@Resolver(() => Thing)
class FieldResolver {
  @Query(() => Thing)
  thing(): Thing {
    return { id: 1 };
  }

  @ResolveField(() => Int)
  @Idempotent()
  size(): number {
    return 1;
  }
}

@Idempotent()
class ProtectedBase {}

@Resolver()
class InheritingResolver extends ProtectedBase {
  @Mutation(() => Int)
  make(): number {
    return 1;
  }
}

const mutation = Mutation(() => Int);
const named = Idempotent({ operation: 'things.make' });

describe('the application does not start', () => {
  const not = (member: string) => `${member} has @Idempotent(), but is not a mutation`;
  const query = Query(() => Int);
  const subscription = Subscription(() => Int);
  it.each<[string, Type[], string]>([
    [
      'with @Idempotent() on a query',
      [resolver('QueryResolver', 'count', query, Idempotent())],
      not('QueryResolver.count'),
    ],
    [
      'with @Idempotent() on a subscription',
      [resolver('SubscriptionResolver', 'counts', Idempotent(), subscription)],
      not('SubscriptionResolver.counts'),
    ],
    ['with @Idempotent() on a field of a type', [FieldResolver], not('FieldResolver.size')],
    [
      'with @Idempotent() on a reference resolver',
      [resolver('ReferenceResolver', 'resolveReference', Idempotent(), ResolveReference())],
      not('ReferenceResolver.resolveReference'),
    ],
    [
      'with two mutations of one name',
      [
        resolver('OneResolver', 'makeOne', mutation, named),
        resolver('OtherResolver', 'makeOther', mutation, named),
      ],
      'Two operations are named "things.make": OneResolver.makeOne (in ',
    ],
    [
      'with a serializer that would no longer receive class instances',
      [
        declared('SerializedResolver', [Resolver(), UseInterceptors(ClassSerializerInterceptor)], {
          makeSerialized: [mutation, Idempotent()],
        }),
      ],
      'SerializedResolver.makeSerialized returns its value to a ClassSerializerInterceptor',
    ],
    [
      'with an invalid option',
      [resolver('OptionResolver', 'make', mutation, Idempotent({ key: { maxLength: 0 } }))],
      '"key.maxLength"',
    ],
    [
      'with a mutation that only inherits the decorator of its class',
      [InheritingResolver],
      'InheritingResolver.make inherits',
    ],
  ])('%s', async (_, resolvers, message) => {
    const end = await startGraphqlApp({ store: memoryStore(), resolvers }).then(
      (app) => app.close(),
      (error: unknown) => error,
    );
    expect(end).toMatchObject({
      name: 'IdempotencyOptionsError',
      message: expect.stringContaining(message),
    });
  });
});

const SCHEMA = buildSchema(`
  input ChargeInput { amount: Int! }
  type Charge { id: ID! amount: Int! }
  type Query { charges: [Charge!]! }
  type Mutation { charge(input: ChargeInput!, idempotencyKey: String!): Charge }
`);

it('the GraphQL page has valid documents only', () => {
  const page = readFileSync(join(projectRoot, 'docs/guides/graphql.md'), 'utf8');
  const documents = [...page.matchAll(/```graphql\n(.*?)```/gs)].map(([, text = '']) => text);
  expect(documents).toHaveLength(1);
  for (const document of documents) expect(validate(SCHEMA, parse(document))).toEqual([]);
});

it('an application without GraphQL runs without its packages', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      ...typescriptNodeOptions,
      '--import',
      new URL('support/no-graphql.mjs', import.meta.url).href,
      fileURLToPath(new URL('support/http-only.ts', import.meta.url)),
    ],
    { env: outsideEnvironment() },
  );
  expect(JSON.parse(stdout)).toEqual({
    graphql: 'graphql is not installed',
    responses: [{ charge: 1 }, { charge: 1 }],
  });
});
