import { describe, expect, it } from '@jest/globals';
import { complaintsAbout, samplesOf } from '../../support/documented-typescript.js';

const samples = samplesOf('docs/fencing.md');

/** What the page leaves to its reader. */
const CARRIER = 'export declare class Carrier { print(order: string): Promise<string>; }';

describe('the TypeScript on the page about fencing', () => {
  it('is there', () => {
    expect(samples).not.toEqual([]);
  });

  it.each(samples)(
    'compiles as it stands: sample %#',
    (sample) => {
      expect(complaintsAbout([sample], { 'carrier.ts': CARRIER })).toEqual([]);
    },
    60_000,
  );
});
