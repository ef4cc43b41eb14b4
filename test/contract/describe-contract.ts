import { describe } from '@jest/globals';
import { callers } from './clauses/callers.js';
import { concurrency, twoProcesses } from './clauses/concurrency.js';
import { errorDocuments } from './clauses/error-documents.js';
import { failures } from './clauses/failures.js';
import { replay } from './clauses/replay.js';
import { requestHeader } from './clauses/request-header.js';
import { sameRequest } from './clauses/same-request.js';
import { store } from './clauses/store.js';
import { whatTakesTime } from './clauses/time.js';
import type { Target } from './harness/targets.js';

/** The whole contract, on each of the servers. */
export function describeContract(targets: readonly Target[]): void {
  describe.each(targets)('the contract on $name', ({ server, isShared }) => {
    describe('A. the request header', () => requestHeader(server));
    describe('B. callers', () => callers(server));
    describe('C. is it the same request?', () => sameRequest(server));
    describe('D. at the same time', () => {
      concurrency(server);
      if (isShared) twoProcesses(server);
    });
    describe('E. the replay', () => replay(server));
    describe('F. failures', () => failures(server));
    describe('H. error documents', () => errorDocuments(server));
    describe('I. store and proxies', () => store(server));
  });

  describe('the contract, G. retention', () => whatTakesTime(targets));
}
