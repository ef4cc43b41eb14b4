import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ConsolePermission } from 'nestjs-idempotency/console';
import type { RecordKey } from 'nestjs-idempotency/store';
import { abandon } from '../../support/engine/abandon.js';
import type { Platform } from '../../support/http/combinations.js';
import { ConsoleApp, formOf, OWN, post, SURROUNDINGS } from './console-app.js';

const PERMISSIONS = [
  'read',
  'release',
  'complete',
  'reopen',
  'redact',
  'retain',
  'delete',
  'even_if_running',
  'bulk',
] as const satisfies readonly ConsolePermission[];

const PAGES = [
  '',
  '/now',
  '/find',
  '/abandoned',
  '/audit',
  '/console.css',
  '/records/KEY',
] as const;

const ACTIONS = ['release', 'complete', 'reopen', 'redact', 'retain', 'delete'] as const;

const UNFINISHED: readonly string[] = ['release', 'complete'];

/** Sets of permissions: none, each alone, and all but each. */
const SETS: readonly (readonly ConsolePermission[])[] = [
  [],
  ...PERMISSIONS.map((one) => [one]),
  ...PERMISSIONS.map((one) => PERMISSIONS.filter((other) => other !== one)),
];

const COMBINATIONS = (['express', 'fastify'] as const).flatMap((platform) =>
  (Object.keys(SURROUNDINGS) as (keyof typeof SURROUNDINGS)[]).map(
    (surroundings) => [platform, surroundings] as const,
  ),
);

describe.each(COMBINATIONS)('The console on %s, %s', (platform, surroundings) => {
  let app: ConsoleApp;
  beforeAll(async () => {
    app = await ConsoleApp.start({ platform, surroundings });
  });
  afterAll(() => app.close());

  const get = (path: string, headers: Record<string, string>) => fetch(app.url + path, { headers });
  const as = (may: readonly string[]) => ({ ...OWN, 'x-may': may.join(' ') });
  const recordFor = (action: string): Promise<RecordKey> =>
    UNFINISHED.includes(action) ? app.abandoned() : app.completed();

  it.each(PAGES)('shows GET %s to who may read, and to nobody else', async (path) => {
    const recordKey = await app.abandoned();
    const at = path.replace('KEY', recordKey);
    for (const may of SETS) {
      const response = await get(at, as(may));
      const text = await response.text();
      expect([may, response.status]).toEqual([may, may.includes('read') ? 200 : 403]);
      expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(text.includes(recordKey)).toBe(may.includes('read') && /abandoned|KEY/.test(path));
    }
    const outside = await get(at, { 'x-may': PERMISSIONS.join(' ') });
    expect(outside.status).toBe(surroundings === 'plain' ? 403 : 418);
    expect(await outside.text()).not.toContain(recordKey);
  });

  it('finds a key for who may read, and for nobody else', async () => {
    await app.calls.run({ operation: 'pay', key: 'k-1', scope: 'alice' }, () => 'paid');
    const sent = { key: 'k-1', scope: 'alice', operation: 'pay' };
    for (const may of SETS) {
      const response = await post(`${app.url}/find`, as(may), sent);
      const text = await response.text();
      expect([may, response.status]).toEqual([may, may.includes('read') ? 200 : 403]);
      expect(text.includes('completed')).toBe(may.includes('read'));
    }
  });

  it.each(ACTIONS)('does %s for who may, and for nobody else', async (action) => {
    for (const may of SETS) {
      const recordKey = await recordFor(action);
      const before = await app.stored(recordKey);
      const fields = await formOf(app, recordKey, action);
      const response = await post(`${app.url}/records/${recordKey}/${action}`, as(may), fields);
      const isAllowed = may.includes(action);
      expect([may, response.status]).toEqual([may, isAllowed ? 200 : 403]);
      // "retain" changes a time alone.
      const isChanged = isAllowed && action !== 'retain';
      expect(JSON.stringify(await app.stored(recordKey)) !== JSON.stringify(before)).toBe(
        isChanged,
      );
      const text = await response.text();
      expect(text.includes('<h2>Facts</h2>')).toBe(
        isAllowed && may.includes('read') && action !== 'delete',
      );
    }
  });

  it.each(UNFINISHED)(
    'does %s to several records for who may, skipping what changed',
    async (action) => {
      for (const may of SETS) {
        const keys = [await app.abandoned(), await app.abandoned(), await app.abandoned()];
        const [changed, ...others] = keys as [RecordKey, ...RecordKey[]];
        const fields: Record<string, string> = { reason: 'the provider was away' };
        for (const key of keys) {
          const { state, fence } = (await app.records.explain(key))!.expected;
          fields[key] = `${state} ${String(fence)}`;
        }
        const sheet = (await app.records.explain(changed))!;
        await app.records.complete(sheet, { actor: 'noa', reason: 'was before' });
        const before = await Promise.all(keys.map((key) => app.stored(key)));
        const response = await post(`${app.url}/abandoned/${action}`, as(may), fields);
        const isAllowed = (may as readonly string[]).includes(action) && may.includes('bulk');
        expect([may, response.status]).toEqual([may, isAllowed ? 200 : 403]);
        expect(await app.stored(changed)).toEqual(before[0]);
        for (const [at, key] of others.entries()) {
          const now = await app.stored(key);
          if (!isAllowed) expect(now).toEqual(before[at + 1]);
          else
            expect(now).toMatchObject({ state: action === 'release' ? 'released' : 'completed' });
        }
        const text = await response.text();
        expect(text.includes('2 of 3 done')).toBe(isAllowed);
        expect(text.includes('no longer what you saw')).toBe(isAllowed);
      }
    },
  );

  it('overrules no attempt without the permission for it', async () => {
    for (const may of [
      ['read', 'release'],
      ['release', 'even_if_running'],
    ] as const) {
      const { lease } = await abandon(app.store, 'settle');
      const fields = { ...(await formOf(app, lease.recordKey)), evenIfRunning: 'yes' };
      const url = `${app.url}/records/${lease.recordKey}/release`;
      const isAllowed = (may as readonly string[]).includes('even_if_running');
      expect((await post(url, as(may), fields)).status).toBe(isAllowed ? 200 : 403);
      expect(await app.stored(lease.recordKey)).toMatchObject({
        state: isAllowed ? 'released' : 'in_progress',
      });
    }
  });

  it('has no other routes', async () => {
    const recordKey = await app.abandoned();
    const all = as(PERMISSIONS);
    const fields = await formOf(app, recordKey);
    for (const path of [
      `/records/${recordKey}/toString`,
      `/records/${recordKey}/erase`,
      '/abandoned/delete',
    ]) {
      expect((await post(app.url + path, all, fields)).status).toBe(404);
    }
    for (const path of [
      '/records/short',
      `/records/${'.'.repeat(43)}`,
      `/records/${'a'.repeat(43)}`,
    ]) {
      expect((await get(path, all)).status).toBe(404);
    }
  });
});

describe.each<Platform>(['express', 'fastify'])('A read-only console on %s', (platform) => {
  it.each(ACTIONS)('has no route for %s', async (action) => {
    const app = await ConsoleApp.start({ platform, console: { readOnly: true } });
    try {
      const recordKey = await (UNFINISHED.includes(action) ? app.abandoned() : app.completed());
      const before = await app.stored(recordKey);
      const headers = { ...OWN, 'x-may': PERMISSIONS.join(' ') };
      const url = `${app.url}/records/${recordKey}`;
      const fields = await formOf(app, recordKey);
      expect((await post(`${url}/${action}`, headers, fields)).status).toBe(404);
      const several = `${app.url}/abandoned/${action}`;
      expect((await post(several, headers, { ...fields, [recordKey]: 'x' })).status).toBe(404);
      expect(await app.stored(recordKey)).toEqual(before);
      expect(await (await fetch(url, { headers })).text()).toContain('This console is read-only.');
    } finally {
      await app.close();
    }
  });
});
