import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { ClassSerializerInterceptor, type Type, UseInterceptors } from '@nestjs/common';
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
} from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Idempotent } from 'nestjs-idempotency';
import { buildSchema, parse, validate } from 'graphql';
import type { Context } from 'graphql-ws';
import { type RawData, WebSocket } from 'ws';
import { type Scenario, SCENARIO_HEADER } from '../../support/http/scenario.js';
import { projectRoot } from '../../support/project-root.js';
import { useServer } from '../../support/servers/use-server.js';
import { declared } from '../../integration/nest/support/declared.js';
import {
  ask,
  type Asking,
  codesIn,
  type GraphqlResponse,
  InScenario,
  startGraphqlApp,
} from './support/graphql-app.js';
import { Charge, charged, PaymentsResolver } from './support/payments.resolver.js';

@Resolver()
class CallersResolver {
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
      'the result of the function given as the option "key", such as payloadField()',
      (key: string) => `chargeByFunction(input: { amount: 5, clientMutationId: "${key}" })`,
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

  it('is taken from the argument of the field, else from its input, else from the header', async () => {
    const scenario = app.scenario();
    const charge = async (argument: string | null, member: string | null, key: string) => {
      const response = await ask(
        scenario,
        `mutation ($argument: String, $member: String) {
          charge: chargeByEither(
            idempotencyKey: $argument, input: { amount: 5, idempotencyKey: $member }
          ) { execution }
        }`,
        { variables: { argument, member }, key },
      );
      return response.data.charge.execution as number;
    };
    const [one, other, header] = [randomUUID(), randomUUID(), randomUUID()];
    expect(await charge(one, other, header)).toBe(1);
    expect(await charge(one, randomUUID(), randomUUID())).toBe(1);
    expect(await charge(null, other, header)).toBe(2);
    expect(await charge(null, other, randomUUID())).toBe(2);
    expect(await charge(null, null, header)).toBe(3);
    expect(await charge(null, null, header)).toBe(3);
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

  it.each([
    ['is empty', 'chargeByArgument(amount: 5, idempotencyKey: "")'],
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
      guard: { canActivate: () => true },
      driver: {
        context: ({ req }: { readonly req: IncomingMessage }) => ({
          req: requestOf(req),
          // The caller, as no guard sets one on the request.
          user: { sub: req.headers.authorization },
        }),
      },
    });
    try {
      const scenario = other.scenario();
      const { key } = scenario;
      const { first, second } = await askTwice(scenario, twoCharges, { key });
      expect(first.data).toMatchObject({ first: { execution: 1 }, second: { execution: 2 } });
      expect(second).toEqual(first);
      const ofAnother = await askTwice(scenario, twoCharges, { key, as: 'dave' });
      expect(ofAnother.first.data).toMatchObject({ first: { execution: 3 } });
      expect(ofAnother.second).toEqual(ofAnother.first);
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
    ['is too long', 'k'.repeat(256)],
  ])('is rejected when it %s', async (_, key) => {
    const scenario = app.scenario();
    const response = await ask(scenario, 'mutation { charge(amount: 1) { execution } }', { key });
    expect(codesIn(response)).toEqual({ charge: 'idempotency_key_invalid' });
    expect(scenario.executions).toBe(0);
  });
});

describe('the caller of a mutation', () => {
  const document = 'mutation { charge(amount: 5) { execution } }';

  it('is the user that the guard sets on the request', async () => {
    const scenario = app.scenario();
    const execution = async (as: string) =>
      (await ask(scenario, document, { as })).data.charge.execution as number;
    expect(await execution('alice')).toBe(1);
    expect(await execution('bob')).toBe(2);
    expect(await execution('alice')).toBe(1);
    expect(await execution('bob')).toBe(2);
  });

  it('is rejected when it cannot be determined', async () => {
    const scenario = app.scenario();
    const response = await ask(scenario, document, { as: null });
    expect(codesIn(response)).toEqual({ charge: 'idempotency_caller_unknown' });
    expect(response.errors![0]!.message).toContain('"caller.anonymous"');
    expect(scenario.executions).toBe(0);
  });

  it("has one key for all mutations with key.uniqueFor: 'principal'", async () => {
    const scenario = app.scenario();
    const first = await ask(scenario, 'mutation { field: overAllOperations { execution } }');
    expect(first.data).toEqual({ field: { execution: 1 } });
    const other = await ask(scenario, 'mutation { field: overAllOperationsToo { execution } }');
    expect(codesIn(other)).toEqual({ field: 'idempotency_key_reused' });
  });
});

describe('the content of a mutation', () => {
  const order = (scenario: Scenario, lines: string, name = 'order') =>
    ask(scenario, `mutation { field: ${name}(input: { lines: ${lines} }) { execution } }`);

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
    const ofAnotherItem = await order(scenario, '[{ sku: "a" }, { sku: "c" }]');
    expect(codesIn(ofAnotherItem)).toEqual({ field: 'idempotency_key_reused' });
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

  it('is what the function given as the option "fingerprint" returns', async () => {
    const scenario = app.scenario();
    const first = await order(scenario, '[]', 'orderWhatever');
    expect(first.data.field.execution).toBe(1);
    expect(await order(scenario, '[{ sku: "a" }]', 'orderWhatever')).toEqual(first);
  });

  it('is rejected when the function given as "fingerprint" returns undefined', async () => {
    const scenario = app.scenario();
    const response = await order(scenario, '[{ sku: "a" }]', 'orderNothing');
    expect(response.errors![0]!.message).toContain(
      'option "fingerprint" of OrdersResolver.orderNothing returned undefined',
    );
    expect(scenario.executions).toBe(0);
  });

  it.each([
    ['an uploaded file', 'upload(file: $value)', 'Upload!', ['photo', 'another photo']],
    ['a Map, as a scalar parses it', 'note(json: $value)', 'Json!', [{ a: 1 }, { a: 2 }]],
    ['an instance with private fields', 'pay(input: $value)', 'Money!', [500, 99_900]],
    ['a part of such an instance', 'payAmount(input: $value)', 'Money!', [500, 99_900]],
  ])(
    'is rejected when it has %s, because two would compare as equal',
    async (_, field, type, values) => {
      const scenario = app.scenario();
      const document = `mutation ($value: ${type}) { field: ${field} { execution } }`;
      for (const value of values) {
        const response = await ask(scenario, document, { variables: { value } });
        expect(codesIn(response)).toEqual({ field: 'idempotency_content_invalid' });
        expect(response.errors![0]!.message).toContain('"fingerprint"');
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

  it('is rejected when it is nested too deeply', async () => {
    const scenario = app.scenario();
    const query = 'mutation ($json: Json!) { field: note(json: $json) { execution } }';
    // Written by hand: JSON.stringify would overflow the stack before the server has to reject it.
    const json = '['.repeat(20_000) + ']'.repeat(20_000);
    const body = `{"query":${JSON.stringify(query)},"variables":{"json":${json}}}`;
    const response = await ask(scenario, query, { json: undefined, body });
    expect(codesIn(response)).toEqual({ field: 'idempotency_content_invalid' });
    expect(scenario.executions).toBe(0);
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

  it('reads its key from its arguments only: the request that opened the connection has one for all', async () => {
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
    const unkeyed = await socket.ask('mutation { charge(amount: 5) { execution } }');
    expect(codesIn(unkeyed)).toEqual({ charge: 'idempotency_key_missing' });
    expect(scenario.executions).toBe(2);
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

const mutation = Mutation(() => Int);
const named = Idempotent({ operation: 'things.make' });

describe('the application does not start', () => {
  const not = (member: string) => `${member} has @Idempotent(), but is not a mutation`;
  const query = Query(() => Int);
  it.each<[string, Type[], string]>([
    [
      'with @Idempotent() on a query',
      [resolver('QueryResolver', 'count', query, Idempotent())],
      not('QueryResolver.count'),
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
