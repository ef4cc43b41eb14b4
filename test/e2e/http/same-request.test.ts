import { Controller, HostParam, Patch, Post, Put, type ExecutionContext } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { combinations, platforms, useStores } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario, type Sending } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

@Controller()
class ContentController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('things/:id')
  @Idempotent()
  async createUnder(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Patch('documents/:id')
  @Idempotent()
  async change(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Put('documents/:id')
  @Idempotent()
  async replace(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('of-principal/a')
  @Idempotent({ keyScope: 'principal' })
  async ofPrincipalA(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('of-principal/b')
  @Idempotent({ keyScope: 'principal' })
  async ofPrincipalB(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Put('of-principal/a')
  @Idempotent({ keyScope: 'principal' })
  async ofPrincipalPut(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('uncompared')
  @Idempotent({ fingerprint: false })
  async uncompared(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('included')
  @Idempotent({ fingerprint: { include: ['amount', 'currency'] } })
  async included(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('excluded')
  @Idempotent({ fingerprint: { exclude: ['sentAt'] } })
  async excluded(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('with-headers')
  @Idempotent({ fingerprint: { headers: ['If-Match', 'X-Api-Version'] } })
  async withHeaders(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('own-fingerprint')
  @Idempotent({
    fingerprint: (_: unknown, context: ExecutionContext) =>
      context.switchToHttp().getRequest<{ body: { order: string } }>().body.order,
  })
  async ownFingerprint(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

@Controller()
class BytesController {
  @Post('bytes')
  @Idempotent({ fingerprint: 'bytes' })
  async bytes(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

/** Says which tenant it has served. */
@Controller({ path: 'of-tenants', host: [':tenant.example.com', ':tenant.:region.example.com'] })
class TenantsController {
  @Post()
  @Idempotent()
  async byValue(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('bytes')
  @Idempotent({ fingerprint: 'bytes' })
  async byBytes(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('included')
  @Idempotent({ fingerprint: { include: ['amount'], headers: ['If-Match'] } })
  async included(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('excluded')
  @Idempotent({ fingerprint: { exclude: ['sentAt'] } })
  async excluded(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('uncompared')
  @Idempotent({ fingerprint: false })
  async uncompared(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('own')
  @Idempotent({ fingerprint: ({ body }) => body })
  async own(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }
}

/** Whose host has no parameters. */
@Controller({ path: 'of-hosts', host: ['a.example.org', 'b.example.org'] })
class HostsController {
  @Post()
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

const stores = useStores();

describe.each(platforms)('C87b the parameters of a host on %s', (platform) => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: memoryStore(),
      controllers: [TenantsController, HostsController],
      rawBody: true,
    });
  });

  afterAll(() => app.close());

  const sentTo = (host: string): Sending => ({ json: { amount: 1 }, headers: [['Host', host]] });

  it.each(['', '/bytes', '/included', '/excluded'])('count: /of-tenants%s', async (route) => {
    const scenario = app.scenario();
    const path = `/of-tenants${route}`;
    const first = await scenario.post(path, sentTo('a.example.com'));
    expect(first.json).toEqual({ execution: 1, tenant: 'a' });
    for (const host of ['b.example.com', 'a.eu.example.com']) {
      expectProblem(await scenario.post(path, sentTo(host)), 'key-reused');
    }
    expectReplay(await scenario.post(path, sentTo('a.example.com:8080')), first);
    expect(scenario.executions).toBe(1);
  });

  it.each(['/uncompared', '/own'])(
    'do not count where the content is not compared, or chosen by a function: %s',
    async (route) => {
      const scenario = app.scenario();
      const first = await scenario.post(`/of-tenants${route}`, sentTo('a.example.com'));
      expect(first.status).toBe(201);
      expectReplay(await scenario.post(`/of-tenants${route}`, sentTo('b.example.com')), first);
    },
  );

  it('are all that counts of it', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/of-hosts', sentTo('a.example.org'));
    expect(first.status).toBe(201);
    expectReplay(await scenario.post('/of-hosts', sentTo('b.example.org')), first);
    expect(scenario.executions).toBe(1);
  });
});

describe.each(combinations)('the same request on $platform with $store', ({ platform, store }) => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [ContentController],
    });
  });

  afterAll(() => app.close());

  async function expectSame(first: Sending, second: Sending, path = '/things', method = 'POST') {
    const scenario = app.scenario();
    const answer = await scenario.send(method, path, first);
    expect(answer.status).toBeLessThan(300);
    expectReplay(await scenario.send(method, path, second), answer);
    expect(scenario.executions).toBe(1);
  }

  async function expectDifferent(
    first: Sending,
    second: Sending,
    path = '/things',
    secondPath = path,
  ) {
    const scenario = app.scenario();
    const answer = await scenario.post(path, first);
    expect(answer.status).toBe(201);
    expectProblem(await scenario.post(secondPath, second), 'key-reused');
    expect(scenario.executions).toBe(1);
    expectReplay(await scenario.post(path, first), answer);
  }

  it('C31 another JSON value is another request, and the original still replays', () =>
    expectDifferent({ json: { amount: 1 } }, { json: { amount: 2 } }));

  it.each([
    ['the order of members', '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'],
    ['the order of members inside arrays', '[{"a":1,"b":2}]', '[{"b":2,"a":1}]'],
    ['white space', '{"a":1,"b":[1,2]}', ' {\n "a" : 1,\t"b": [ 1, 2 ] } '],
    ['escapes', '{"a":"A/é"}', String.raw`{"\u0061":"\u0041\/\u00e9"}`],
  ])('C32 %s does not matter', (_, first, second) => expectSame({ body: first }, { body: second }));

  it('C33 the order of an array matters', () =>
    expectDifferent({ json: [1, 2] }, { json: [2, 1] }));

  it('C34 null, absent, numbers, texts, booleans, empty objects and arrays are all different', async () => {
    const bodies = [
      ...['{}', '{"a":null}', '{"a":1}', '{"a":"1"}', '{"a":true}', '{"a":"true"}', '{"a":""}'],
      ...['{"a":{}}', '{"a":[]}', '{"a":[null]}', '{"a":0}', '{"a":false}', '{"a":"null"}', '[]'],
    ];
    for (const first of bodies) {
      const scenario = app.scenario();
      await scenario.post('/things', { body: first });
      for (const second of bodies.filter((body) => body !== first)) {
        const { status } = await scenario.post('/things', { body: second });
        expect({ first, second, status }).toEqual({ first, second, status: 422 });
      }
      expect(scenario.executions).toBe(1);
    }
  });

  it('C34 the nesting of members matters', () =>
    expectDifferent({ body: '{"a":1,"b":2}' }, { body: '{"a":{"b":2},"b":1}' }));

  it.each([
    ['100', '1e2'],
    ['0.5', '0.50'],
    ['1.0', '1'],
    ['-0', '0'],
  ])('C35 %s and %s are one number', (first, second) =>
    expectSame({ body: `{"a":${first}}` }, { body: `{"a":${second}}` }),
  );

  it.each([
    ['a number beyond binary64', '{"a":1e400}'],
    ['its negative', '{"a":[-1e400]}'],
    ['arrays 1,100 levels deep', '['.repeat(1_100) + ']'.repeat(1_100)],
    ['objects 6,000 levels deep', '{"a":'.repeat(6_000) + '1' + '}'.repeat(6_000)],
  ])('C35 %s cannot be compared', async (_, body) => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/things', { body }), 'content-invalid');
    expect(scenario.executions).toBe(0);
  });

  it('C35 990 levels can be compared', () => {
    const body = (inner: string) => '['.repeat(990) + inner + ']'.repeat(990);
    return expectDifferent({ body: body('1') }, { body: body('2') });
  });

  it('C36 composed and decomposed characters are different', () =>
    expectDifferent(
      { json: { name: 'é'.normalize('NFC') } },
      { json: { name: 'é'.normalize('NFD') } },
    ));

  it('C37 bodies of 80 kB that differ in the last character are different', () => {
    const text = 'x'.repeat(80_000);
    return expectDifferent({ json: { text: `${text}a` } }, { json: { text: `${text}b` } });
  });

  it.each([
    ['a value differs', '?a=1', '?a=2'],
    ['a member is added', '', '?a=1'],
    ['a member is added to others', '?a=1', '?a=1&b=2'],
    ['the order of a repeated name differs', '?a=1&a=2', '?a=2&a=1'],
    ['a name is repeated', '?a=1', '?a=1&a=1'],
    ['an ampersand is part of a value', '?a=1&b=2', '?a=1%26b%3D2'],
    ['octets differ that are no UTF-8', '?a=%FF', '?a=%FE'],
  ])('C38 the query counts: %s', (_, first, second) =>
    expectDifferent({}, {}, `/things${first}`, `/things${second}`),
  );

  it('C39 the order of differently named query members does not matter', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/things?a=1&b=2&a=3');
    expectReplay(await scenario.post('/things?b=2&a=1&a=3'), first);
    expect(scenario.executions).toBe(1);
  });

  it('C40 another concrete path of the same handler is another request', () =>
    expectDifferent({}, {}, '/things/1', '/things/2'));

  it('C40 another handler is independent', async () => {
    const scenario = app.scenario();
    const answers = [await scenario.post('/things'), await scenario.post('/things/1')];
    expect(answers.map(({ status, replayed }) => [status, replayed])).toEqual([
      [201, false],
      [201, false],
    ]);
    expect(scenario.executions).toBe(2);
  });

  it("C40 with keyScope: 'principal' another handler with the same key is a reuse", () =>
    expectDifferent({}, {}, '/of-principal/a', '/of-principal/b'));

  it('C41 PATCH and PUT of one path are independent', async () => {
    const scenario = app.scenario();
    const patched = await scenario.send('PATCH', '/documents/1', { json: { a: 1 } });
    const put = await scenario.send('PUT', '/documents/1', { json: { a: 1 } });
    expect([patched.json, put.json]).toEqual([{ execution: 1 }, { execution: 2 }]);
  });

  it("C41 with keyScope: 'principal' another method with the same key is a reuse", async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/of-principal/a');
    expectProblem(await scenario.send('PUT', '/of-principal/a'), 'key-reused');
    expectReplay(await scenario.post('/of-principal/a'), first);
    expect(scenario.executions).toBe(1);
  });

  it.each(['PATCH', 'PUT'])('C42 %s replays', (method) =>
    expectSame({ json: { a: 1 } }, { json: { a: 1 } }, '/documents/7', method),
  );

  it('C43 another media type is another request', () =>
    expectDifferent(
      { body: '{"a":1}', type: 'application/json' },
      { body: '{"a":1}', type: 'text/plain' },
    ));

  it.each([
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/json;charset="utf-8"',
  ])('C43 the spelling and parameters of the media type do not matter: %s', (type) =>
    expectSame({ json: { a: 1 } }, { json: { a: 1 }, type }),
  );

  it('C44 other headers do not matter', () =>
    expectSame(
      { json: { a: 1 }, headers: [['User-Agent', 'one']] },
      {
        json: { a: 1 },
        headers: [
          ['User-Agent', 'two'],
          ['Accept', 'text/html'],
          ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
          ['X-Retry', '1'],
          ['If-Match', '"1"'],
        ],
      },
    ));

  it.each(['If-Match', 'x-api-version'])(
    'C44 headers named in fingerprint.headers matter: %s',
    (name) =>
      expectDifferent({ headers: [[name, '"1"']] }, { headers: [[name, '"2"']] }, '/with-headers'),
  );

  it('C44 fingerprint.headers still compares the body, and no other header', async () => {
    await expectDifferent({ json: { a: 1 } }, { json: { a: 2 } }, '/with-headers');
    await expectSame(
      { headers: [['X-Retry', '1']] },
      { headers: [['X-Retry', '2']] },
      '/with-headers',
    );
  });

  const form = { type: 'application/x-www-form-urlencoded' };

  it('C45 urlencoded bodies are compared', async () => {
    await expectSame({ ...form, body: 'a=1&b=x%20y' }, { ...form, body: 'a=1&b=x%20y' });
    await expectDifferent({ ...form, body: 'a=1&b=x' }, { ...form, body: 'a=1&b=y' });
  });

  it('C45 urlencoded bodies are compared by name: the order counts among equal names', async () => {
    await expectSame({ ...form, body: 'a=1&b=2&a=3' }, { ...form, body: 'b=2&a=1&a=3' });
    await expectDifferent({ ...form, body: 'a=1&a=3' }, { ...form, body: 'a=3&a=1' });
    await expectDifferent({ ...form, body: 'a=1' }, { ...form, body: 'a=1&a=1' });
    await expectDifferent({ ...form, body: 'a=1%26b%3D2' }, { ...form, body: 'a=1&b=2' });
  });

  it('C45 an urlencoded body is not the JSON that it says the same as', () =>
    expectDifferent({ ...form, body: 'a=1' }, { json: { a: '1' } }));

  it('C45 a text body is compared', async () => {
    const type = 'text/plain';
    await expectSame({ type, body: 'one' }, { type, body: 'one' });
    await expectDifferent({ type, body: 'one' }, { type, body: 'One' });
  });

  it('C46 octets are compared byte for byte', async () => {
    const type = 'application/octet-stream';
    const octets = Buffer.from(Array.from({ length: 512 }, (_, index) => index % 256));
    const other = Buffer.from(octets);
    other[300]! ^= 1;
    await expectSame({ type, body: octets }, { type, body: octets });
    await expectDifferent({ type, body: octets }, { type, body: other });
    await expectDifferent({ type, body: octets }, { type, body: octets.subarray(0, 511) });
  });

  it.each(['/included', '/excluded'])(
    'C46 octets and texts count as a whole where members are selected: %s',
    async (path) => {
      const octets = { type: 'application/octet-stream', body: Buffer.from([1, 2]) };
      await expectSame(octets, octets, path);
      await expectDifferent(octets, { ...octets, body: Buffer.from([1, 3]) }, path);
      const text = { type: 'text/plain', body: 'one' };
      await expectSame(text, text, path);
      await expectDifferent(text, { ...text, body: 'two' }, path);
    },
  );

  it('C48 no body is the same request as no body', () => expectSame({}, {}));

  it('C48 no body and a body are different', () => expectDifferent({}, { json: { a: 1 } }));

  it('C87b host and forwarded addresses are no part of the request', () =>
    expectSame(
      { json: { a: 1 } },
      {
        json: { a: 1 },
        headers: [
          ['Host', 'api.example.com'],
          ['X-Forwarded-For', '203.0.113.7'],
          ['X-Forwarded-Proto', 'https'],
          ['Forwarded', 'for=203.0.113.7;proto=https'],
        ],
      },
    ));

  it('C31 fingerprint: false replays whatever the payload is', () =>
    expectSame({ json: { a: 1 } }, { json: { a: 2 } }, '/uncompared'));

  it('C37 fingerprint.include compares the elements that it names', async () => {
    const json = { amount: 1, currency: 'EUR', note: 'a' };
    await expectSame({ json }, { json: { ...json, note: 'b' } }, '/included');
    await expectDifferent({ json }, { json: { ...json, amount: 2 } }, '/included');
    await expectDifferent({ json }, { json: { amount: 1, note: 'a' } }, '/included');
  });

  it('C37 fingerprint.exclude compares all but the elements that it names', async () => {
    const json = { amount: 1, sentAt: 1 };
    await expectSame({ json }, { json: { ...json, sentAt: 2 } }, '/excluded');
    await expectSame({ json }, { json: { amount: 1 } }, '/excluded');
    await expectDifferent({ json }, { json: { ...json, amount: 2 } }, '/excluded');
  });

  it('C37 a fingerprint function compares what it returns', async () => {
    await expectSame(
      { json: { order: 'a', n: 1 } },
      { json: { order: 'a', n: 2 } },
      '/own-fingerprint',
    );
    await expectDifferent(
      { json: { order: 'a', n: 1 } },
      { json: { order: 'b', n: 1 } },
      '/own-fingerprint',
    );
  });
});

describe.each(combinations)('the same bytes on $platform with $store', ({ platform, store }) => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [BytesController],
      rawBody: true,
    });
  });

  afterAll(() => app.close());

  it("C32 with fingerprint: 'bytes' the same bytes replay", async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/bytes', { body: '{"a":1,"b":2}' });
    expectReplay(await scenario.post('/bytes', { body: '{"a":1,"b":2}' }), first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['the order of members', '{"b":2,"a":1}'],
    ['white space', '{"a":1, "b":2}'],
    ['the spelling of a number', '{"a":1.0,"b":2}'],
    ['a repeated member', '{"a":0,"a":1,"b":2}'],
  ])("C32 with fingerprint: 'bytes' %s matters", async (_, body) => {
    const scenario = app.scenario();
    const first = await scenario.post('/bytes', { body: '{"a":1,"b":2}' });
    expectProblem(await scenario.post('/bytes', { body }), 'key-reused');
    expectReplay(await scenario.post('/bytes', { body: '{"a":1,"b":2}' }), first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['a form', 'application/x-www-form-urlencoded', 'a=1&b=2', 'b=2&a=1'],
    ['octets', 'application/octet-stream', 'one', 'two'],
  ])("C46 with fingerprint: 'bytes' those of %s matter", async (_, type, body, other) => {
    const scenario = app.scenario();
    const first = await scenario.post('/bytes', { type, body });
    expect(first).toMatchObject({ status: 201 });
    expectProblem(await scenario.post('/bytes', { type, body: other }), 'key-reused');
    expectReplay(await scenario.post('/bytes', { type, body }), first);
    expect(scenario.executions).toBe(1);
  });

  it("C48 with fingerprint: 'bytes' no body is the same request as no body", async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/bytes');
    expectReplay(await scenario.post('/bytes'), first);
    expectProblem(await scenario.post('/bytes', { body: '{}' }), 'key-reused');
    expect(scenario.executions).toBe(1);
  });

  it("C35 with fingerprint: 'bytes' integers above 2^53 are told apart", async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/bytes', { body: '{"a":9007199254740993}' })).status).toBe(201);
    expectProblem(await scenario.post('/bytes', { body: '{"a":9007199254740992}' }), 'key-reused');
  });
});
