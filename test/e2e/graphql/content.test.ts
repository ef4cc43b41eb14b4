import {
  Args,
  Field,
  InputType,
  Int,
  Mutation,
  Resolver,
  Scalar,
  type CustomScalar,
} from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { ask, codesIn, startGraphqlApp } from './support/graphql-app.js';
import { InScenario } from './support/in-scenario.js';
import { Charge, charged } from './support/payments.resolver.js';

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

describe('the content of a mutation', () => {
  const app = useServer(() =>
    startGraphqlApp({
      store: memoryStore(),
      resolvers: [OrdersResolver, UploadScalar, JsonScalar, MoneyScalar],
    }),
  );

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
