/**
 * Sees to it that the tests of MQTT's consumers have a broker to start.
 *
 * The package's own service, which Debian may start on port 1883, is left alone: the tests start brokers of their own
 * on free ports.
 */
import { spawnSync } from 'node:child_process';
import { findMosquitto } from '../mosquitto-server.js';
import { findOrLeaveOut } from './find-or-leave-out.js';

findOrLeaveOut({
  name: 'Mosquitto',
  debianPackages: ['mosquitto'],
  variable: 'MOSQUITTO_BIN',
  find: () => {
    const program = findMosquitto();
    if (program === undefined) return undefined;
    // Its help is the only place where it says its version without listening.
    const { stdout } = spawnSync(program, ['-h'], { encoding: 'utf8' });
    return /^mosquitto version \S+/.exec(stdout)?.[0];
  },
  tests: 'The tests on MQTT',
  elsewhere: '"brew install mosquitto" (macOS)',
});
