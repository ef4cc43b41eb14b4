/** A process that opens a circuit and then has nothing left to do. */
import { BreakerUnderTest } from './breaker-under-test.js';

const breaker = new BreakerUnderTest();
await breaker.open();
console.log(breaker.reported.join());
