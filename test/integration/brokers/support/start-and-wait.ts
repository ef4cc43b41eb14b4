/** Starts the broker whose name it is given, tells its parent where, and stays until that or itself is killed. */
import { brokers } from './brokers.js';

const [, , name] = process.argv;
const { dir } = await brokers.find((broker) => broker.name === name)!.start();
// A broker keeps nobody from ending who is done.
process.channel!.ref();
process.send!({ dir });
