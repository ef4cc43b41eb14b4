import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/use-server.js';
import { ask, codesIn, startGraphqlApp, type Asking } from './support/graphql-app.js';
import { PaymentsResolver } from './support/payments.resolver.js';

const app = useServer(() =>
  startGraphqlApp({ store: memoryStore(), resolvers: [PaymentsResolver] }),
);

/** Sends the document twice, and gives both answers. */
async function askTwice(scenario: Scenario, document: string, asking: Asking = {}) {
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
      'what the function given as the option "key" answers',
      (key: string) => `chargeByFunction(input: { amount: 5, clientMutationId: "${key}" })`,
    ],
    [
      'a member that the option "key" names by payloadField()',
      (key: string) => `chargeByPath(input: { amount: 5, clientMutationId: "${key}" })`,
    ],
    ['the directive on the field', (key: string) => `charge(amount: 5) @idempotent(key: "${key}")`],
  ])('is %s', async (_, field) => {
    const scenario = app.scenario();
    const document = `mutation { done: ${field(scenario.key)} ${fields} }`;
    const { first, second } = await askTwice(scenario, document);
    expect(first).toEqual({ status: 200, data: { done: { execution: 1, amount: 5 } } });
    expect(second).toEqual(first);
    const other = await ask(scenario, `mutation { done: ${field(randomUUID())} ${fields} }`);
    expect(other.data.done.execution).toBe(2);
    expect(scenario.executions).toBe(2);
  });

  it('may be a variable of the directive, of the argument, or inside of one', async () => {
    const document = `mutation ($key: String!, $input: ChargeInput!) {
      a: charge(amount: 1) @idempotent(key: $key) ${fields}
      b: chargeByArgument(amount: 2, idempotencyKey: $key) ${fields}
      c: chargeByInput(input: $input) ${fields}
    }`;
    const scenario = app.scenario();
    const { key } = scenario;
    const variables = { key, input: { amount: 3, idempotencyKey: key } };
    const { first, second } = await askTwice(scenario, document, { variables });
    expect(first.data).toMatchObject({ a: { amount: 1 }, b: { amount: 2 }, c: { amount: 3 } });
    expect(second).toEqual(first);
    expect(scenario.executions).toBe(3);
  });

  it('is the same however it is written down, and wherever the field stands', async () => {
    const scenario = app.scenario();
    const { key } = scenario;
    const answers = [
      await ask(scenario, `mutation { charge(amount: 5) @idempotent(key: "${key}") ${fields} }`),
      await ask(
        scenario,
        `mutation { charge(amount: 5) @idempotent(key: """${key}""") ${fields} }`,
      ),
      await ask(
        scenario,
        `mutation ($key: String = "${key}", $amount: Int!) { ...Paying }
         fragment Paying on Mutation { charge(amount: $amount) @idempotent(key: $key) ${fields} }`,
        { variables: { amount: 5 } },
      ),
      await ask(
        scenario,
        `mutation {
          charge(amount: 5) @idempotent(key: "${key}") { execution }
          charge(amount: 5) @idempotent(key: "${key}") { amount }
        }`,
      ),
    ];
    expect(answers.map(({ data }) => data)).toEqual(
      answers.map(() => ({ charge: { execution: 1, amount: 5 } })),
    );
    expect(scenario.executions).toBe(1);
  });

  it('does not depend on the alias when the field says it itself', async () => {
    const scenario = app.scenario();
    const paid = (alias: string) =>
      `mutation { ${alias}: charge(amount: 5) @idempotent(key: "${scenario.key}") ${fields} }`;
    expect((await ask(scenario, paid('once'))).data.once.execution).toBe(1);
    expect((await ask(scenario, paid('again'))).data.again.execution).toBe(1);
  });

  it('is taken from the field’s own argument rather than from its input', async () => {
    const scenario = app.scenario();
    const charge = (argument: string, member: string) =>
      ask(
        scenario,
        `mutation { charge: chargeByEither(
          idempotencyKey: "${argument}", input: { amount: 5, idempotencyKey: "${member}" }
        ) { execution } }`,
      );
    const [one, other] = [randomUUID(), randomUUID()];
    const first = await charge(one, other);
    expect(await charge(one, randomUUID())).toEqual(first);
    expect((await charge(other, one)).data).toEqual({ charge: { execution: 2 } });
  });

  it('is taken from the field’s argument first, then from its directive, then from the header', async () => {
    const scenario = app.scenario();
    const [argument, directive, header] = [randomUUID(), randomUUID(), randomUUID()];
    const charge = (argumentKey: string | null, directiveKey?: string) =>
      ask(
        scenario,
        `mutation ($argument: String) {
          chargeByArgument(amount: 5, idempotencyKey: $argument)
            ${directiveKey === undefined ? '' : `@idempotent(key: "${directiveKey}")`} { execution }
        }`,
        { variables: { argument: argumentKey }, key: header },
      );
    const executions: number[] = [];
    for (const asked of [
      charge(argument, directive),
      charge(argument, randomUUID()),
      charge(null, directive),
      charge(null, directive),
      charge(null),
      charge(null),
    ]) {
      executions.push((await asked).data.chargeByArgument.execution as number);
    }
    expect(new Set(executions).size).toBe(3);
    expect(executions[0]).toBe(executions[1]);
    expect(executions[2]).toBe(executions[3]);
    expect(executions[4]).toBe(executions[5]);
  });

  it('may be an integer, which is the same key as its digits', async () => {
    const scenario = app.scenario();
    const number = Math.floor(Math.random() * 2 ** 31);
    const document = `mutation { chargeByNumber(idempotencyKey: ${number}) { execution } }`;
    const { first, second } = await askTwice(scenario, document);
    expect(second).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('is asked for by name where it is missing, in all ways in which it can be given', async () => {
    const scenario = app.scenario();
    const answer = await ask(
      scenario,
      'mutation { charge(amount: 5) { execution } chargeByOtherHeader { execution } }',
    );
    expect(codesIn(answer)).toEqual({
      charge: 'idempotency_key_missing',
      chargeByOtherHeader: 'idempotency_key_missing',
    });
    const [first, second] = answer.errors!.map(({ message }) => message);
    expect(first).toContain('"idempotencyKey"');
    expect(first).toContain('"input"');
    expect(first).toContain('@idempotent(key: …)');
    expect(first).toContain('Idempotency-Key');
    expect(second).toContain('X-Request-Key');
    expect(answer.status).toBe(200);
    expect(scenario.executions).toBe(0);
  });

  it('is nowhere but where a function given as the option "key" finds it', async () => {
    const scenario = app.scenario();
    const answer = await ask(
      scenario,
      `mutation { chargeByFunction(input: { amount: 5, idempotencyKey: "${scenario.key}" })
        @idempotent(key: "${scenario.key}") { execution } }`,
      { key: scenario.key },
    );
    expect(codesIn(answer)).toEqual({ chargeByFunction: 'idempotency_key_missing' });
    expect(answer.errors![0]!.message).toContain('The function given as the option "key"');
    expect(scenario.executions).toBe(0);
  });

  const long = 'k'.repeat(256);
  it.each([
    ['is empty', 'chargeByArgument(amount: 5, idempotencyKey: "")'],
    ['is too long', `chargeByArgument(amount: 5, idempotencyKey: "${long}")`],
    ['is too long for the route', `chargeByOtherHeader @idempotent(key: "${'k'.repeat(41)}")`],
    ['is empty in the directive', 'charge(amount: 5) @idempotent(key: "")'],
    ['is no text', 'chargeById(idempotencyKey: ["a-list"])'],
    ['is not of the syntax', 'chargeByUuid @idempotent(key: "no-uuid")'],
    [
      'differs between two places of one field',
      'charge(amount: 5) @idempotent(key: "one") { execution } charge(amount: 5) @idempotent(key: "two")',
    ],
  ])('is refused where it %s', async (_, field) => {
    const scenario = app.scenario();
    // A good one elsewhere makes it no better.
    const answer = await ask(scenario, `mutation { ${field} { execution } }`, {
      key: scenario.key,
    });
    expect(Object.values(codesIn(answer))).toEqual(['idempotency_key_invalid']);
    expect(scenario.executions).toBe(0);
  });
});

describe('the key in the header', () => {
  const halves = ['"one', 'two"'];
  const twoCharges = `mutation {
    first: charge(amount: 1) { execution amount }
    second: charge(amount: 2) { execution amount }
  }`;

  it('is one for each field of the document, by its response name', async () => {
    const scenario = app.scenario();
    const { first, second } = await askTwice(scenario, twoCharges, { key: scenario.key });
    expect(first.data).toEqual({
      first: { execution: 1, amount: 1 },
      second: { execution: 2, amount: 2 },
    });
    expect(second).toEqual(first);
    expect(scenario.executions).toBe(2);
  });

  it('is another one under another alias', async () => {
    const scenario = app.scenario();
    const { key } = scenario;
    await ask(scenario, 'mutation { one: charge(amount: 1) { execution } }', { key });
    await ask(scenario, 'mutation { two: charge(amount: 1) { execution } }', { key });
    await ask(scenario, 'mutation { charge(amount: 1) { execution } }', { key });
    expect(scenario.executions).toBe(3);
  });

  it('has a length, as the key of an argument', async () => {
    const scenario = app.scenario();
    const document = 'mutation { charge(amount: 1) { execution } }';
    const { errors } = await ask(scenario, document, { key: 'k'.repeat(256) });
    expect(errors).toMatchObject([{ extensions: { code: 'idempotency_key_invalid' } }]);
    expect(scenario.executions).toBe(0);
  });

  it('has the name that the option "key" gives it', async () => {
    const scenario = app.scenario();
    const document = 'mutation { chargeByOtherHeader { execution } }';
    const asking = { key: scenario.key, keyHeader: 'x-request-key' };
    const { first, second } = await askTwice(scenario, document, asking);
    expect(first.data.chargeByOtherHeader.execution).toBe(1);
    expect(second).toEqual(first);
  });

  it.each<[string, (request: IncomingMessage) => object, string[]]>([
    ['Fastify’s', (raw) => ({ headers: raw.headers, raw }), halves],
    // Node has joined its lines, and nobody knows any more that there were two.
    ['one that was made by hand', ({ headers }) => ({ headers }), ['one', 'two']],
  ])('is that of the request in the context, also of %s', async (_, requestOf, doubled) => {
    const other = await startGraphqlApp({
      store: memoryStore(),
      resolvers: [PaymentsResolver],
      options: { anonymous: 'shared' },
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
    ['comes in two lines that Node joins to a good one', halves],
    ['is malformed', '"one'],
  ])('is refused where it %s', async (_, key) => {
    const scenario = app.scenario();
    const answer = await ask(scenario, 'mutation { charge(amount: 1) { execution } }', { key });
    expect(codesIn(answer)).toEqual({ charge: 'idempotency_key_invalid' });
    expect(scenario.executions).toBe(0);
  });
});
