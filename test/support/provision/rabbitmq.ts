/**
 * Sees to it that the tests of RabbitMQ's consumers have a broker to start.
 *
 * The package's own service, which Debian may start on port 5672 with an epmd on 4369, is left alone: the tests start
 * brokers of their own on free ports.
 */
import { findRabbitMq } from '../rabbitmq/installation.js';
import { findOrLeaveOut } from './find-or-leave-out.js';

findOrLeaveOut({
  name: 'RabbitMQ',
  debianPackages: ['rabbitmq-server'],
  variable: 'RABBITMQ_SERVER_BIN',
  find: () => {
    const found = findRabbitMq();
    return found && `RabbitMQ (${found.server})`;
  },
  tests: 'The tests on RabbitMQ',
  elsewhere: '"brew install rabbitmq" (macOS)',
});
