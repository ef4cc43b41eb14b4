import { randomUUID } from 'node:crypto';
import { All, Controller, Get, Post, type ExecutionContext } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { combinations, useStores } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

interface NamesKey {
  readonly key: string;
}

@Controller()
class HeaderController {
  @Post('required')
  @Idempotent()
  async required(@InScenario() scenario: Scenario, @IdempotencyContext() { key }: NamesKey) {
    return { execution: await scenario.run(), key };
  }

  @Post('optional')
  @Idempotent({ required: false })
  async optional(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('undecorated')
  async undecorated(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('strict')
  @Idempotent({ keySyntax: 'strict' })
  async strict(@InScenario() scenario: Scenario, @IdempotencyContext() { key }: NamesKey) {
    return { execution: await scenario.run(), key };
  }

  @Post('uuid')
  @Idempotent({ keySyntax: 'uuid' })
  async uuid(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('own-syntax')
  @Idempotent({ keySyntax: (key: string) => key.startsWith('order-') })
  async ownSyntax(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('short')
  @Idempotent({ maxKeyLength: 8 })
  async short(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('renamed')
  @Idempotent({ key: 'PayPal-Request-Id' })
  async renamed(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('derived')
  @Idempotent({
    key: (context: ExecutionContext) =>
      context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers['x-order'],
  })
  async derived(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @All('any-method')
  @Idempotent()
  async anyMethod(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

@Controller('decorated-class')
@Idempotent()
class DecoratedClassController {
  @Get()
  async read(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post()
  async write(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

const stores = useStores();
const long = (length: number) => `${randomUUID()}${'x'.repeat(length)}`.slice(0, length);

describe.each(combinations)(
  'the request header on $platform with $store',
  ({ platform, store }) => {
    let app: TestApp;

    beforeAll(async () => {
      app = await startApp({
        platform,
        store: stores.fresh(store),
        controllers: [HeaderController, DecoratedClassController],
      });
    });

    afterAll(() => app.close());

    /** The header is refused on routes that require a key and on routes that do not: it never counts as absent. */
    async function expectRefusedEverywhere(key: string | readonly string[]) {
      const scenario = app.scenario();
      expectProblem(await scenario.post('/required', { key }), 'key-invalid');
      expectProblem(await scenario.post('/optional', { key }), 'key-invalid');
      expect(scenario.executions).toBe(0);
    }

    it.each([
      ['a UUID', randomUUID()],
      ['a token', `tok_${randomUUID()}!#$&'*+-.^`],
      ['a number', String(Date.now())],
      ['a text with an inner colon and slash', `order:7/${randomUUID()}`],
    ])('C03 bare and quoted spellings of %s are one key', async (_, name) => {
      const bareFirst = app.scenario();
      const key = `${name}${store}`;
      const first = await bareFirst.post('/required', { key });
      expectReplay(await bareFirst.post('/required', { key: `"${key}"` }), first);
      const quotedFirst = app.scenario();
      const quoted = await quotedFirst.post('/required', { key: `"${key}-2"` });
      expectReplay(await quotedFirst.post('/required', { key: `${key}-2` }), quoted);
      expect([bareFirst.executions, quotedFirst.executions]).toEqual([1, 1]);
    });

    it.each([
      ['a token', 'k-1'],
      ['a bare UUID', '0b6b5d1e-9d0f-4f0e-8a75-0c5a3f7c4a11'],
      ['an integer', '42'],
      ['a decimal', '4.2'],
      ['a byte sequence', ':YWJj:'],
      ['a boolean', '?1'],
      ['single quotes', "'k'"],
    ])('C04 strict syntax refuses %s', async (_, key) => {
      const scenario = app.scenario();
      expectProblem(await scenario.post('/strict', { key }), 'key-invalid');
      expect(scenario.executions).toBe(0);
    });

    it('C04 strict syntax takes a structured-field string', async () => {
      const scenario = app.scenario();
      const key = `"${scenario.key}"`;
      const first = await scenario.post('/strict', { key });
      expectReplay(await scenario.post('/strict', { key }), first);
    });

    it.each(['/required', '/strict'])(
      'C05 parameters after the string are ignored on %s',
      async (path) => {
        const scenario = app.scenario();
        const first = await scenario.post(path, { key: `"${scenario.key}";v=1; w="x"` });
        expect(first.json.key).toBe(scenario.key);
        expectReplay(await scenario.post(path, { key: `"${scenario.key}"` }), first);
      },
    );

    it.each([
      ['an unterminated string', '"abc'],
      ['a string that ends in a backslash', '"abc\\'],
      ['text after the string', '"abc" def'],
      ['text right after the string', '"abc"def'],
      ['another escape', '"a\\nb"'],
      ['two strings', '"a" "b"'],
      ['an empty parameter', '"a";'],
      ['a parameter without a name', '"a";=1'],
      ['a parameter without its value', '"a";v='],
      ['a quote inside a bare key', 'a"b'],
    ])('C06 %s is refused', (_, key) => expectRefusedEverywhere(key));

    it.each([
      ['equal', ['same', 'same']],
      ['different', ['one', 'two']],
      ['quoted', ['"one"', '"one"']],
      ['one of them empty', ['', 'one']],
    ])('C07 two header lines are refused: %s', (_, key) => expectRefusedEverywhere(key));

    it.each(['"a", "b"', 'a, b', 'a,b', '"a","a"'])('C08 the combined line %s is refused', (key) =>
      expectRefusedEverywhere(key),
    );

    it('C09 a string split over two lines is refused', () =>
      expectRefusedEverywhere(['"foo', 'bar"']));

    it.each([
      ['an empty value', ''],
      ['white space', ' \t '],
      ['an empty string', '""'],
    ])('C10 %s is refused', (_, key) => expectRefusedEverywhere(key));

    it('C11 255 characters are a key, and not one of them is cut off', async () => {
      const scenario = app.scenario();
      const stem = long(254);
      const first = await scenario.post('/required', { key: `${stem}a` });
      const second = await scenario.post('/required', { key: `${stem}b` });
      expect([first.json.key, second.json.key]).toEqual([`${stem}a`, `${stem}b`]);
      expect(scenario.executions).toBe(2);
      expectReplay(await scenario.post('/required', { key: `${stem}a` }), first);
    });

    it.each([256, 1020])('C11 %d characters are refused', (length) =>
      expectRefusedEverywhere(long(length)),
    );

    it.each([
      ['white space inside', `a${' '.repeat(15_000)}b`],
      ['white space in quotes', `"a${' '.repeat(15_000)}b"`],
      ['nothing but letters', 'a'.repeat(15_000)],
    ])('C11 15 kB are refused: %s', (_, key) => expectRefusedEverywhere(key));

    it('C11 maxKeyLength sets another limit', async () => {
      const scenario = app.scenario();
      const eight = randomUUID().slice(0, 8);
      expect((await scenario.post('/short', { key: eight })).status).toBe(201);
      expectProblem(await scenario.post('/short', { key: `${eight}9` }), 'key-invalid');
      expect(scenario.executions).toBe(1);
    });

    it('C12 the limit counts decoded characters', async () => {
      const scenario = app.scenario();
      const key = `${randomUUID()}${'"'.repeat(255 - 36)}`;
      const spelled = `"${key.replaceAll('"', '\\"')}"`;
      expect(spelled.length).toBeGreaterThan(255);
      expect((await scenario.post('/required', { key: spelled })).json.key).toBe(key);
      await expectRefusedEverywhere(`"${'\\"'.repeat(256)}"`);
    });

    it.each(['a\tb', '"a\tb"'])('C13 a tab inside the key is refused: %j', (key) =>
      expectRefusedEverywhere(key),
    );

    it.each([0x00, 0x01, 0x0b, 0x1f, 0x7f])(
      'C13 the control byte %d never reaches the handler',
      async (byte) => {
        const scenario = app.scenario();
        const response = await scenario.post('/optional', {
          key: `"a${String.fromCharCode(byte)}b"`,
        });
        expect(response.status).toBe(400);
        expect(scenario.executions).toBe(0);
      },
    );

    it.each([
      ['0x80', '\x80'],
      ['Latin-1', 'caf\xe9'],
      ['UTF-8', Buffer.from('café').toString('latin1')],
      ['0xff', '"\xff"'],
    ])('C14 a byte above 0x7e is refused: %s', (_, key) => expectRefusedEverywhere(key));

    it('C16 inner spaces count', async () => {
      const scenario = app.scenario();
      const { key } = scenario;
      for (const spelling of [`"${key} a"`, `"${key}  a"`, `" ${key} a"`, `"${key} a "`]) {
        expect((await scenario.post('/required', { key: spelling })).replayed).toBe(false);
      }
      expect(scenario.executions).toBe(4);
    });

    it('C16 spaces around the field value do not count', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/required');
      expectReplay(await scenario.post('/required', { key: `  \t${scenario.key} \t ` }), first);
      expectReplay(await scenario.post('/required', { key: `  "${scenario.key}"  ` }), first);
    });

    it('C17 keys that mean something elsewhere are keys like any other', async () => {
      const scenario = app.scenario();
      const names = [
      '*', '{a}', '{a', ':', '::', '../', '../../etc', '__proto__', 'constructor', '%00', '%2e', '?', '[a]',
      '\\', '\\\\', "'", '$1', '${a}', ';', '=', '/', '|', '-', '_', '#', '&', '<a>', 'a b', 'null', 'undefined',
    ]; // prettier-ignore
      const spelled = names.map((name) => `"${name.replaceAll(/["\\]/g, '\\$&')}"`);
      const firsts = [];
      for (const key of spelled) firsts.push(await scenario.post('/required', { key }));
      expect(firsts.map(({ json }) => json.key)).toEqual(names);
      expect(scenario.executions).toBe(names.length);
      for (const [index, key] of spelled.entries()) {
        expectReplay(await scenario.post('/required', { key }), firsts[index]!);
      }
      expect(scenario.executions).toBe(names.length);
    });

    it.each([
      ['well-formed', 'k'],
      ['malformed', '"abc'],
      ['empty', ''],
      ['doubled', ['a', 'b']],
    ])('C20 a route without the decorator ignores a %s key', async (_, key) => {
      const scenario = app.scenario();
      for (const execution of [1, 2]) {
        const response = await scenario.post('/undecorated', { key });
        expect(response).toMatchObject({ status: 201, replayed: false, json: { execution } });
      }
    });

    it.each(['/any-method', '/decorated-class'])(
      'C21 GET and HEAD ignore the key and use nothing up: %s',
      async (path) => {
        const scenario = app.scenario();
        for (const key of [scenario.key, scenario.key, '"abc', null]) {
          const response = await scenario.send('GET', path, { key });
          expect({ status: response.status, replayed: response.replayed }).toEqual({
            status: 200,
            replayed: false,
          });
        }
        const head = await scenario.send('HEAD', path);
        expect({ status: head.status, replayed: head.replayed }).toEqual({
          status: 200,
          replayed: false,
        });
        expect(scenario.executions).toBe(5);

        const first = await scenario.post(path);
        expect(first.json).toEqual({ execution: 6 });
        expectReplay(await scenario.post(path), first);
      },
    );

    it('the option keySyntax may ask for a UUID', async () => {
      const scenario = app.scenario();
      expect((await scenario.post('/uuid')).status).toBe(201);
      expect((await scenario.post('/uuid', { key: `"${scenario.key}"` })).replayed).toBe(true);
      expectProblem(await scenario.post('/uuid', { key: 'order-7' }), 'key-invalid');
      expect(scenario.executions).toBe(1);
    });

    it('the option keySyntax may be a predicate', async () => {
      const scenario = app.scenario();
      expect((await scenario.post('/own-syntax', { key: `order-${scenario.key}` })).status).toBe(
        201,
      );
      expectProblem(await scenario.post('/own-syntax'), 'key-invalid');
      expect(scenario.executions).toBe(1);
    });

    it('the option key may name another header', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/renamed', { keyHeader: 'PayPal-Request-Id' });
      expectReplay(await scenario.post('/renamed', { keyHeader: 'paypal-request-id' }), first);
      expect((await scenario.post('/renamed')).status).toBe(400);
      expect(scenario.executions).toBe(1);
    });

    it('the option key may be a function of the context', async () => {
      const scenario = app.scenario();
      const headers = [['X-Order', scenario.id]] as const;
      const first = await scenario.post('/derived', { key: null, headers });
      expectReplay(await scenario.post('/derived', { key: null, headers }), first);
      expectProblem(await scenario.post('/derived'), 'key-missing');
      expect(scenario.executions).toBe(1);
    });
  },
);
