import { describe, expect, it } from '@jest/globals';
import { messagePlanOf } from './arguments.js';
import { publications } from './publications.js';
import { injectionsOf } from './injections.js';
import { Random } from '../../../test/integration/differential/random.js';
import { POINTS } from '../../faults/worker/mishap.js';

describe('the plan of a run with messages', () => {
  it('publishes each message five times by default', () => {
    expect(messagePlanOf(['--messages', '10'])).toMatchObject({ deliveries: 50 });
    expect(messagePlanOf(['--messages', '10', '--deliveries', '12'])).toMatchObject({
      deliveries: 12,
    });
  });

  it.each([
    [['--deliveries', '5', '--messages', '6'], '--deliveries must be a whole number from 6, not 5'],
    [['--queue', 'stream'], '--queue must be one of quorum, classic, not stream'],
    [['--points', 'after_effect,later'], '--points must be one of after_begin,'],
    [['--kills', 'x'], '--kills must be a whole number from 0, not x'],
    [['--unknown'], "Unknown option '--unknown'"],
  ])('rejects %j', (args, message) => {
    expect(() => messagePlanOf(args)).toThrow(message);
  });
});

describe('the messages of a run', () => {
  const published = (seed: number, count: number) => {
    const numbers = publications(200, 1_000, new Random(seed));
    return Array.from({ length: count }, () => numbers.next().value);
  };

  it('are all published, in order, and each copy after its message', () => {
    const numbers = published(1, 1_000);
    const firsts = numbers.filter((number, index) => numbers.indexOf(number) === index);
    expect(firsts).toEqual(Array.from({ length: 200 }, (_, index) => index + 1));
  });

  it('have copies close to them, and far away', () => {
    const numbers = published(1, 1_000);
    const distances = numbers.map((number, index) => index - numbers.indexOf(number));
    expect(distances.filter((distance) => distance > 0 && distance < 40).length).toBeGreaterThan(
      200,
    );
    expect(distances.filter((distance) => distance > 200).length).toBeGreaterThan(100);
  });

  it('continue with copies when more of them are needed', () => {
    const more = published(1, 1_500).slice(1_000);
    expect(more.every((number) => number >= 1 && number <= 200)).toBe(true);
  });

  it('are the same for the same seed, and different for another one', () => {
    expect(published(1, 1_000)).toEqual(published(1, 1_000));
    expect(published(1, 1_000)).not.toEqual(published(2, 1_000));
  });
});

describe('the injections of a run', () => {
  const plan = messagePlanOf(['--kills', '20', '--closes', '6', '--pauses', '2']);

  it('are those of the plan, half of the deaths at each named point in rotation', () => {
    const injections = injectionsOf(plan, new Random(1));
    const count = (isIt: (injection: (typeof injections)[number]) => boolean) =>
      injections.filter(isIt).length;
    expect(count(({ kind }) => kind === 'kill')).toBe(10);
    for (const point of POINTS) {
      expect(count((injection) => injection.kind === 'crash' && injection.point === point)).toBe(2);
    }
    for (const by of ['consumer', 'broker', 'none']) {
      expect(count((injection) => injection.kind === 'close' && injection.by === by)).toBe(2);
    }
    expect(count(({ kind }) => kind === 'pause')).toBe(2);
  });

  it('are in the order that the seed determines', () => {
    expect(injectionsOf(plan, new Random(1))).toEqual(injectionsOf(plan, new Random(1)));
    expect(injectionsOf(plan, new Random(1))).not.toEqual(injectionsOf(plan, new Random(2)));
  });
});
