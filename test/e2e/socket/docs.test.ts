import { describe, expect, it } from '@jest/globals';
import { complaintsAbout, samplesOf } from '../../support/documented-typescript.js';

const samples = samplesOf('docs/websockets.md');

/** What the page leaves to its reader. */
const ORDERS = `import type { CanActivate } from '@nestjs/common';
  export interface Order { readonly id: string }
  export declare class Orders {
    place(order: Order): Promise<Order>;
    cancel(order: Order): Promise<Order>;
  }
  export declare class Cards { add(): Promise<object> }
  export declare class SessionGuard implements CanActivate { canActivate(): boolean }`;

describe('the page about WebSockets', () => {
  it('has TypeScript that compiles as it stands', () => {
    expect(samples).toHaveLength(4);
    expect(complaintsAbout(samples, { 'orders.ts': ORDERS })).toEqual([]);
  }, 60_000);
});
