/** Starts the named broker, sends its folder to the parent, and runs until it or the parent is killed. */
import { brokers } from './brokers.js';

const [, , name] = process.argv;
const { dir } = await brokers.find((broker) => broker.name === name)!.start();
// A broker does not keep this process alive; the channel does.
process.channel!.ref();
process.send!({ dir });
