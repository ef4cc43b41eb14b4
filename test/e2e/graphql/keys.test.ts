import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { ask, codesIn, startGraphqlApp, type Asking } from './support/graphql-app.js';
import { PaymentsResolver } from './support/payments.resolver.js';

const app = useServer(() =>
  startGraphqlApp({ store: memoryStore(), resolvers: [PaymentsResolver] }),
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
