import { Controller, Logger, Post } from '@nestjs/common';
import { afterAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { useServer } from '../../../support/servers/use-server.js';

interface Payment {
  readonly amount: number;
  readonly note?: string;
}

/** The `toJSON` of a value that `toJSON` returned is not called. */
class Converted {
  constructor(private readonly json: unknown) {}

  toJSON() {
    return this.json;
  }
}

type Choosing = Readonly<Record<string, (payment: Payment & { ammount?: never }) => unknown>>;

/** Functions that would compare nothing of any payment; canonical-json.test.ts lists the values that do so. */
const SAYING_NOTHING: Choosing = {
  'a missing member': ({ ammount }) => ammount,
  'a nested promise': ({ amount }) => [Promise.resolve(amount)],
  'a Set from a nested toJSON': ({ amount }) => ({
    id: 1,
    paid: new Converted([new Set([amount])]),
  }),
  'undefined from a nested toJSON': () => ({ id: 1, amount: new Converted(undefined) }),
};

/** Functions that find nothing to compare: a name is misspelt, or the client omitted the member. */
const MISSING_ALL: Choosing = {
  'only missing members': ({ ammount }) => ({ ammount }),
  'a list of missing members': ({ ammount }) => [ammount],
  'lists of missing members': ({ ammount }) => ({ all: [[ammount, { ammount }]] }),
  'such a nested object': ({ ammount }) => ({ id: 1, paid: [{ ammount, to: ammount }] }),
  'such an object from toJSON': ({ ammount }) => [1, new Converted({ ammount })],
  'an invalid date': ({ ammount }) => ({ at: new Date(ammount!) }),
};

const chooser = (path: string): string => decodeURIComponent(path.split('/').at(-1)!);

@Controller()
class ComparingController {
  @Post('missing-all/:what')
  @Idempotent({ fingerprint: ({ path, body }) => MISSING_ALL[chooser(path)]!(body as Payment) })
  async missAll(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('comparing-a-list')
  @Idempotent({ fingerprint: ({ body }) => listed(body as Payment) })
  async compareList(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('comparing-nothing/:what')
  @Idempotent({ fingerprint: ({ path, body }) => SAYING_NOTHING[chooser(path)]!(body as Payment) })
  async compareNothing(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('comparing-what-is-there')
  @Idempotent({ fingerprint: ({ body }) => chosen(body as Payment) })
  async compareWhatIsThere(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

/** An optional member may be undefined; a date is compared as its text. */
function chosen({ amount, note }: Payment): unknown {
  return { amount, note, at: new Date(0) };
}

function listed({ amount, note }: Payment): unknown {
  return [amount, note];
}

describe.each(platforms)('a function given as "fingerprint" on %s', (platform) => {
  const logged = new LoggedLines();
  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers: [ComparingController],
      configure: (nest) => nest.useLogger(logged),
    }),
  );
  afterAll(() => Logger.overrideLogger(false));

  it.each(Object.keys(SAYING_NOTHING))(
    'fails the request and logs the cause where it returns %s',
    async (what) => {
      const scenario = app.scenario();
      logged.lines.length = 0;
      for (const amount of [1, 1000]) {
        const path = `/comparing-nothing/${encodeURIComponent(what)}`;
        const response = await scenario.post(path, { json: { amount } });
        expect(response).toMatchObject({ status: 500, replayed: false });
      }
      expect(scenario.executions).toBe(0);
      const errors = logged.lines.filter(({ level }) => level === 'error');
      expect(errors.map(({ message }) => message).join('\n')).toContain(
        'option "fingerprint" of ComparingController.compareNothing returned',
      );
    },
  );

  it.each(Object.keys(MISSING_ALL))(
    'finds %s: the request is rejected because its content cannot be compared',
    async (what) => {
      const scenario = app.scenario();
      for (const amount of [1, 1000]) {
        const path = `/missing-all/${encodeURIComponent(what)}`;
        expectProblem(await scenario.post(path, { json: { amount } }), 'content-invalid');
      }
      expect(scenario.executions).toBe(0);
    },
  );

  it('can list absent members, which are compared as null', async () => {
    const scenario = app.scenario();
    const path = '/comparing-a-list';
    const first = await scenario.post(path, { json: { amount: 1 } });
    expectReplay(await scenario.post(path, { json: { amount: 1, note: null } }), first);
    expectProblem(await scenario.post(path, { json: { amount: 2 } }), 'key-reused');
    expectProblem(await scenario.post(path, { json: { amount: 1, note: '' } }), 'key-reused');
    expect(scenario.executions).toBe(1);
  });

  it('can omit absent members', async () => {
    const scenario = app.scenario();
    const path = '/comparing-what-is-there';
    const first = await scenario.post(path, { json: { amount: 1 } });
    expectReplay(await scenario.post(path, { json: { amount: 1, other: 2 } }), first);
    expectProblem(await scenario.post(path, { json: { amount: 2 } }), 'key-reused');
    expectProblem(await scenario.post(path, { json: { amount: 1, note: '' } }), 'key-reused');
    expect(scenario.executions).toBe(1);
  });
});
