import { expect, it } from '@jest/globals';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import { UploadPlaces } from '../../support/internals/payload.js';

const WAIT_MS = 1_000;

/** One place, and what happens there. No time passes by itself: what waits for its time-out never ends. */
function onePlace() {
  const clock = new StandingClock();
  const ends: [end: string, ms: number][] = [];
  const observer = { uploadWaited: (...end: (typeof ends)[number]) => void ends.push(end) };
  const places = new UploadPlaces(1, clock, observer as never);
  const begun: string[] = [];
  const use = (name: string, signal?: AbortSignal) =>
    places.use(WAIT_MS, async () => void begun.push(name), signal);
  /** Takes the place until its end is called, with an error or without. */
  const hold = () => {
    let end: (error?: Error) => void = () => undefined;
    const held = places.use(
      WAIT_MS,
      () =>
        new Promise<void>((resolve, reject) => {
          end = (error) => (error === undefined ? resolve() : reject(error));
        }),
    );
    return { held, end: (error?: Error) => end(error) };
  };
  return { clock, ends, begun, use, hold };
}

it('Bodies wait for a place in turn, and only that is counted as a wait', async () => {
  const { begun, ends, use, hold, clock } = onePlace();
  const { held, end } = hold();
  const others = ['second', 'third'].map((name) => use(name));
  await clock.advance(WAIT_MS - 1);
  expect(begun).toEqual([]);
  end();
  await Promise.all([held, ...others]);
  expect(begun).toEqual(['second', 'third']);
  const waited = ['begun', WAIT_MS - 1];
  expect(ends).toEqual([waited, waited]);
  await use('at once');
  expect(ends).toHaveLength(2);
});

it('One that fails gives its place to the next', async () => {
  const { begun, use, hold } = onePlace();
  const { held, end } = hold();
  const next = use('next');
  const failure = new Error('the store is down');
  end(failure);
  await expect(held).rejects.toBe(failure);
  await next;
  await use('at once');
  expect(begun).toEqual(['next', 'at once']);
});

it('One that gets no place in time is refused, and does not take one later', async () => {
  const { begun, ends, use, hold, clock } = onePlace();
  const { held, end } = hold();
  const late = use('late').catch((error: unknown) => error);
  await clock.advance(WAIT_MS);
  expect(await late).toMatchObject({ code: 'idempotency_uploads_full' });
  expect(ends).toEqual([['timeout', WAIT_MS]]);
  end();
  await held;
  await use('at once');
  expect(begun).toEqual(['at once']);
});

it.each([
  ['before it waits', true],
  ['while it waits', false],
])('One that is given up %s leaves at once, and the place to the next', async (_, isBefore) => {
  const { begun, ends, use, hold } = onePlace();
  const { held, end } = hold();
  const reason = new Error('its source has failed');
  const source = new AbortController();
  if (isBefore) source.abort(reason);
  const late = use('late', source.signal);
  const next = use('next');
  if (!isBefore) source.abort(reason);
  await expect(late).rejects.toBe(reason);
  end();
  await Promise.all([held, next]);
  expect(begun).toEqual(['next']);
  expect(ends).toEqual([
    ['given_up', 0],
    ['begun', 0],
  ]);
});
