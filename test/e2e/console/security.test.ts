import { afterEach, describe, expect, it } from '@jest/globals';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import type { ConsoleOperator } from 'nestjs-idempotency/console';
import {
  IdempotencyReconciler,
  StoreUnavailableError,
  type AuditEntry,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { DelegatingStore, type List, type RecordPage } from 'nestjs-idempotency/store';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import type { Platform } from '../../support/http/combinations.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { until } from '../../support/waiting/until.js';
import { ConsoleApp, formOf, OWN, post, type ConsoleAppOptions } from './console-app.js';

const ALL = 'read release complete reopen redact retain delete even_if_running bulk';
const AS_ALL = { ...OWN, 'x-may': ALL };

let app: ConsoleApp | undefined;
afterEach(async () => {
  await app?.close();
  app = undefined;
});

async function started(options: Partial<ConsoleAppOptions> = {}): Promise<ConsoleApp> {
  app = await ConsoleApp.start({ platform: 'express', ...options });
  return app;
}

describe.each<Platform>(['express', 'fastify'])('Forged requests on %s', (platform) => {
  const { 'sec-fetch-site': _, ...withoutSite } = AS_ALL;
  const trusted = 'https://ops.example.com';

  it.each([
    [{ 'sec-fetch-site': 'cross-site' }, false],
    [{ 'sec-fetch-site': 'same-site' }, false],
    [{ 'sec-fetch-site': 'none' }, false],
    [{ 'sec-fetch-site': '' }, false],
    [{ 'sec-fetch-site': 'cross-site', authorization: 'Basic YTpi' }, false],
    [{ 'sec-fetch-site': 'cross-site', origin: 'OWN' }, false],
    [{ origin: 'https://evil.example' }, false],
    [{ origin: 'http://127.0.0.1:1' }, false],
    [{ origin: 'null' }, false],
    [{ origin: 'null', authorization: 'Basic YTpi' }, false],
    [{ origin: `${trusted}.evil.example` }, false],
    [{}, false],
    [{ 'sec-fetch-site': 'same-origin' }, true],
    [{ origin: 'OWN' }, true],
    [{ origin: trusted }, true],
    [{ authorization: 'Basic YTpi' }, true],
  ] as [Record<string, string>, boolean][])('%o: acts %s', async (headers, acts) => {
    await started({ platform, console: { trustedOrigins: [trusted] } });
    const recordKey = await app!.abandoned();
    const before = await app!.stored(recordKey);
    const { origin } = new URL(app!.url);
    const sent = Object.entries(headers).map(([name, value]) => [
      name,
      value === 'OWN' ? origin : value,
    ]);
    const all = { ...withoutSite, ...(Object.fromEntries(sent) as Record<string, string>) };
    const response = await post(
      `${app!.url}/records/${recordKey}/complete`,
      all,
      await formOf(app!, recordKey),
    );
    expect(response.status).toBe(acts ? 200 : 403);
    const after = await app!.stored(recordKey);
    if (acts) expect(after).toMatchObject({ state: 'completed' });
    else expect(after).toEqual(before);
    expect(
      (await post(`${app!.url}/find`, all, { key: 'k', scope: 's', operation: 'o' })).status,
    ).toBe(acts ? 200 : 403);
  });
});

describe('What comes from outside', () => {
  const mark = (name: string) => `<mark id="${name}">'&${name}</mark>`;

  it.each<Platform>(['express', 'fastify'])('is escaped or not there, on %s', async (platform) => {
    const { calls, store } = await started({ platform });
    const operation = mark('operation');
    const scope = mark('caller');
    const secrets = ['key', 'caller', 'body', 'reason', 'header'];
    await calls.run({ operation, key: mark('key'), scope }, () => mark('body'));
    const dead = await abandon(store, operation, mark('key'), LEASE_MS, {
      note: mark('note').replaceAll(' ', '_'),
    });
    const annotated = (name: string) => encodeURIComponent(mark(name));
    const history = `~h${annotated('holder')};~o${annotated('named')}~<1i~h${annotated('earlier')}`;
    const { lease } = await abandon(store, operation, 'other', LEASE_MS, { note: history });
    app!.pass(LEASE_MS);
    const as = { ...AS_ALL, 'x-actor': mark('actor') };
    const { recordKey } = dead.lease;
    const act = `${app!.url}/records/${recordKey}/complete`;
    const form = { ...(await formOf(app!, recordKey)), reason: mark('reason') };
    const get = async (path: string) => (await fetch(app!.url + path, { headers: as })).text();
    const found = { key: mark('key'), scope, operation };
    const pages = {
      now: await get('/now'),
      abandoned: await get('/abandoned'),
      cursor: await get(`/abandoned?cursor=${encodeURIComponent(mark('cursor'))}`),
      record: await get(`/records/${recordKey}`),
      annotated: await get(`/records/${lease.recordKey}`),
      missing: await get(`/records/${encodeURIComponent(mark('path'))}`),
      found: await (await post(`${app!.url}/find`, as, found)).text(),
      refused: await (await post(act, as, { ...form, fence: mark('fence') })).text(),
      retention: await (await post(act, as, { ...form, retention: mark('retention') })).text(),
      acted: await (await post(act, as, form)).text(),
      audit: await get('/audit'),
    };
    const text = Object.values(pages).join('\n');
    expect(text).not.toContain('<mark');
    for (const secret of secrets)
      expect([secret, text.includes(`&amp;${secret}`)]).toEqual([secret, false]);
    const escaped = (name: string) =>
      `&lt;mark id=&quot;${name}&quot;&gt;&#39;&amp;${name}&lt;/mark&gt;`;
    expect(pages.now).toContain(escaped('operation'));
    expect(pages.found).toContain(escaped('operation'));
    expect(pages.record).toContain('&amp;note');
    for (const name of ['holder', 'named', 'earlier']) {
      expect(pages.annotated).toContain(escaped(name));
    }
    expect(pages.audit).toContain(escaped('actor'));
    expect(pages.found).toContain('completed');
  });

  it('is not asked for in the address, and no page is kept or framed', async () => {
    const { url } = await started();
    const response = await fetch(`${url}/now`, { headers: AS_ALL });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'cache-control': 'no-store',
      'content-security-policy':
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    });
    for (const path of ['now', 'find', 'abandoned', 'audit']) {
      const text = await (await fetch(`${url}/${path}`, { headers: AS_ALL })).text();
      expect(text).not.toMatch(/<form(?! method="post")|<script| style="| on\w+=/);
    }
  });
});

it('The time axis shows what the store says of an attempt, and what this process has seen', async () => {
  const { calls, store } = await started();
  const { key, operation, lease } = await abandon(store, 'settle');
  app!.pass(LEASE_MS);
  const axisOf = async (): Promise<string[]> => {
    const page = await fetch(`${app!.url}/records/${lease.recordKey}`, { headers: AS_ALL });
    const text = await page.text();
    expect(text.match(/<rect/g)).toHaveLength(1);
    const [, list = ''] = /<ol class="times">(.*)<\/ol>/s.exec(text)!;
    return list.replaceAll(/<time.*?<\/time>/g, '').match(/(?<=<li class="\w+">\s*)\S[^<]*/g)!;
  };
  expect(await axisOf()).toEqual([
    'attempt 1 began',
    'the lease ended without an outcome',
    expect.stringMatching(/^now: in_progress/),
  ]);
  await calls.run({ operation, key, scope: 'alice' }, () => 'settled');
  await calls.run({ operation, key, scope: 'alice' }, () => 'settled');
  app!.pass(60_000);
  expect(await axisOf()).toEqual([
    'attempt 2 began',
    'attempt 2: takeover',
    'attempt 2: completed',
    'replayed',
    expect.stringMatching(/^now: completed/),
  ]);
});

describe('An act', () => {
  it.each([
    ['another state', { state: 'completed' }, 200],
    ['another fence', { fence: '7' }, 409],
    ['no fence', { fence: '' }, 400],
    ['a state that is none', { state: 'gone' }, 400],
    ['no reason', { reason: '' }, 400],
    ['a retention that is none', { retention: 'soon' }, 400],
    ['overruling without the typed name', { evenIfRunning: 'yes', typed: '' }, 400],
  ])('does nothing with %s', async (name, wrong, status) => {
    await started();
    const recordKey = await app!.abandoned();
    const before = await app!.stored(recordKey);
    const fields = { ...(await formOf(app!, recordKey)), ...wrong };
    const url = `${app!.url}/records/${recordKey}/complete`;
    const response = await post(url, AS_ALL, fields);
    // What does not apply to a completed record is not asked of the store.
    expect([name, response.status]).toEqual([name, status === 200 ? 409 : status]);
    expect(await app!.stored(recordKey)).toEqual(before);
  });

  it.each(['reopen', 'delete'])('%s needs the typed name', async (action) => {
    await started();
    const recordKey = await app!.completed();
    const before = await app!.stored(recordKey);
    const fields = { ...(await formOf(app!, recordKey)), typed: 'abcdef' };
    const response = await post(`${app!.url}/records/${recordKey}/${action}`, AS_ALL, fields);
    expect(response.status).toBe(400);
    expect(await app!.stored(recordKey)).toEqual(before);
  });

  it('is done once where its form is sent twice', async () => {
    await started();
    const recordKey = await app!.abandoned();
    const fields = await formOf(app!, recordKey);
    const url = `${app!.url}/records/${recordKey}/release`;
    expect((await post(url, AS_ALL, fields)).status).toBe(200);
    const after = await app!.stored(recordKey);
    expect((await post(url, AS_ALL, fields)).status).toBe(409);
    expect(await app!.stored(recordKey)).toEqual(after);
  });

  it('is audited with its operator, and not done where the audit fails', async () => {
    const entries: AuditEntry[] = [];
    let isAway = false;
    const audit = (entry: AuditEntry) => {
      if (isAway) throw new Error('no disk');
      entries.push(entry);
    };
    await started({ options: { operator: { audit } } });
    const recordKey = await app!.abandoned();
    const fields = await formOf(app!, recordKey);
    const url = `${app!.url}/records/${recordKey}/complete`;
    isAway = true;
    const before = await app!.stored(recordKey);
    expect((await post(url, AS_ALL, fields)).status).toBe(503);
    expect(await app!.stored(recordKey)).toEqual(before);
    isAway = false;
    expect((await post(url, { ...AS_ALL, 'x-actor': 'kim' }, fields)).status).toBe(200);
    const { reason } = fields;
    expect(entries).toMatchObject([
      { phase: 'intent', action: 'complete', recordKey, actor: 'kim', reason },
      { phase: 'result', action: 'complete', recordKey, actor: 'kim', reason, result: 'ok' },
    ]);
    const page = await (await fetch(`${app!.url}/audit`, { headers: AS_ALL })).text();
    expect(page).toMatch(new RegExp(`kim.*complete.*ok.*${recordKey}`, 's'));
  });

  it.each<Platform>(['express', 'fastify'])('needs a form on %s', async (platform) => {
    await started({ platform });
    const recordKey = await app!.abandoned();
    const response = await fetch(`${app!.url}/records/${recordKey}/complete`, {
      method: 'POST',
      headers: { ...AS_ALL, 'content-type': 'text/plain' },
      body: new URLSearchParams(await formOf(app!, recordKey)).toString(),
    });
    expect(response.status).toBe(415);
  });
});

describe('The option "operator"', () => {
  const nobody = (): ConsoleOperator => {
    throw new Error('secret of the application');
  };

  it.each<[string, () => unknown]>([
    ['throws', nobody],
    ['rejects', async () => nobody()],
    ['returns nothing', () => undefined],
    ['returns no actor', () => ({ actor: ' ', may: ['read'] })],
    ['returns a permission that is none', () => ({ actor: 'mia', may: ['read', 'raed'] })],
    ['returns a text as permissions', () => ({ actor: 'mia', may: 'read' })],
  ])('lets nobody in where it %s, and says so once', async (_, operator) => {
    const { nest, url } = await started({ console: { operator: operator as never } });
    const log = new LoggedLines();
    nest.useLogger(log);
    for (const path of ['', '/now', '/console.css']) {
      const response = await fetch(url + path, { headers: AS_ALL });
      expect(response.status).toBe(403);
      expect(await response.text()).not.toContain('secret');
    }
    const told = log.own.filter((line) => line.includes('IdempotencyConsoleModule'));
    expect(told).toEqual([expect.stringMatching(/^warn: The function of the option "operator"/)]);
    expect(told[0]).not.toContain('secret');
  });
});

/** A store whose lists wait, or fail. */
class SlowStore extends DelegatingStore {
  readonly lists: (() => void)[] = [];
  isAway = false;

  override async list(list: List): Promise<RecordPage | undefined> {
    if (this.isAway) throw new StoreUnavailableError('away');
    await new Promise<void>((resolve) => this.lists.push(resolve));
    return super.list(list);
  }
}

describe('The store', () => {
  async function withSlowStore(): Promise<SlowStore> {
    let slow: SlowStore | undefined;
    await started({ wrap: (store: IdempotencyStore) => (slow = new SlowStore(store)) });
    return slow!;
  }

  it('is looked through by two pages at a time', async () => {
    const store = await withSlowStore();
    const look = async () => (await fetch(`${app!.url}/abandoned`, { headers: AS_ALL })).status;
    const pages = [look(), look()];
    await until(() => store.lists.length === 2);
    const third = look();
    const first = await Promise.race([third, until(() => store.lists.length === 3)]);
    for (const go of store.lists) go();
    expect(first).toBe(429);
    expect(await Promise.all(pages)).toEqual([200, 200]);
  });

  it('may be away: the page of now then has the process its own numbers', async () => {
    const store = await withSlowStore();
    await app!.calls.run({ operation: 'settle', key: 'k', scope: 's' }, () => 1);
    store.isAway = true;
    const now = await fetch(`${app!.url}/now`, { headers: AS_ALL });
    expect(now.status).toBe(503);
    const text = await now.text();
    expect(text).toContain('idempotency_store_unavailable');
    expect(text).toContain('<bdi>settle</bdi>');
    expect((await fetch(`${app!.url}/abandoned`, { headers: AS_ALL })).status).toBe(503);
  });
});

describe.each<Platform>(['express', 'fastify'])('The page of now on %s', (platform) => {
  const now = (query = '') => fetch(`${app!.url}/now${query}`, { headers: AS_ALL });

  it('is loaded again by itself where the operator wants it', async () => {
    await started({ platform });
    expect((await now()).headers.get('refresh')).toBeNull();
    const live = await now('?every=10');
    expect(live.headers.get('refresh')).toBe('10');
    expect(await live.text()).toContain('Stop looking by itself');
  });

  it('counts what the reconciler could not decide', async () => {
    await started({ platform, options: { reconcile: { after: 0, interval: '24h' } } });
    const said = async () =>
      /Left by the reconciler<\/dt>\s*<dd>(.*?)<\/dd>/s
        .exec(await (await now()).text())![1]!
        .replaceAll(/<[^>]*>|\s+/g, ' ');
    for (let at = 0; at < 3; at += 1) await app!.abandoned();
    const { unknown } = await app!.nest.get(IdempotencyReconciler).reconcile();
    expect(unknown).toBe(3);
    expect(await said()).toMatch(/^ ?3 , of no operation with “onTakeover” here; 0 whose/);
    await app!.calls.run({ operation: 'other', key: 'k', scope: 's' }, () => 1);
    for (const { recordKey } of (await app!.records.list({ lease: 'over' })).records) {
      const sheet = (await app!.records.explain(recordKey))!;
      await app!.records.complete(sheet, { actor: 'mia', reason: 'looked at it' });
    }
    await app!.nest.get(IdempotencyReconciler).reconcile();
    expect(await said()).toMatch(/^ ?0 , of no/);
  });
});

describe('Several acts', () => {
  it('are of one form at most as long as a page of the list', async () => {
    await started();
    const act = async (fields: Record<string, string>) =>
      (await post(`${app!.url}/abandoned/complete`, AS_ALL, { reason: 'away', ...fields })).status;
    const recordKey = await app!.abandoned();
    const before = await app!.stored(recordKey);
    const { state, fence } = (await app!.records.explain(recordKey))!.expected;
    const seen = `${state} ${String(fence)}`;
    expect(await act({})).toBe(400);
    expect(await act({ [recordKey]: 'in_progress' })).toBe(400);
    expect(await act({ [recordKey]: seen, reason: '' })).toBe(400);
    const names = Array.from({ length: 100 }, (_, at) => `${recordKey.slice(0, 40)}${100 + at}`);
    const others = Object.fromEntries(names.map((name) => [name, seen]));
    expect(await act({ [recordKey]: seen, ...others })).toBe(400);
    expect(await app!.stored(recordKey)).toEqual(before);
    expect(await act({ [recordKey]: seen, constructor: seen })).toBe(200);
    expect(await app!.stored(recordKey)).toMatchObject({ state: 'completed' });
  });

  it('end where the audit fails, and say how far they came', async () => {
    let left = 2;
    const audit = () => ((left -= 1) < 0 ? Promise.reject(new Error('full')) : Promise.resolve());
    await started({ options: { operator: { audit } } });
    const keys = [await app!.abandoned(), await app!.abandoned()];
    const fields: Record<string, string> = { reason: 'the provider was away' };
    for (const key of keys) {
      fields[key] = `in_progress ${String((await app!.records.explain(key))!.expected.fence)}`;
    }
    const response = await post(`${app!.url}/abandoned/release`, AS_ALL, fields);
    expect(response.status).toBe(503);
    const text = await response.text();
    expect(text).toContain('1 of 2 done');
    expect(text).toContain('no act without its audit');
  });
});

describe.each<Platform>(['express', 'fastify'])('Links and documents on %s', (platform) => {
  it('lead from each page to each, below a prefix', async () => {
    await started({ platform, surroundings: 'prefix, versions, pipe, interceptor, filter' });
    const recordKey = await app!.abandoned();
    const seen = new Set<string>();
    const open = [app!.url];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      const response = await fetch(next, { headers: AS_ALL });
      expect([next, response.status]).toEqual([next, 200]);
      for (const [, href = ''] of (await response.text()).matchAll(/href="([^"#]*)"/g)) {
        open.push(new URL(href.replaceAll('&amp;', '&'), next).href);
      }
    }
    const paths = [
      '',
      '/now',
      '/find',
      '/abandoned',
      '/audit',
      '/console.css',
      `/records/${recordKey}`,
    ];
    // What follows is of the same page.
    const pages = new Set(Array.from(seen, (each) => each.split('?', 1)[0]!));
    expect([...pages].sort()).toEqual(paths.map((path) => app!.url + path).sort());
    expect(seen).toContain(`${app!.url}/now?every=10`);
    expect(seen).toContain(`${app!.url}/abandoned?cursor=&chosen=all`);
  });

  it('has no page in the description of the API', async () => {
    await started({ platform });
    const { paths } = SwaggerModule.createDocument(app!.nest, new DocumentBuilder().build());
    expect(paths).toEqual({});
  });
});
