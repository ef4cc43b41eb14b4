/** For `node --import`: a machine without a client for RabbitMQ. */
import Module, { register } from 'node:module';

const MISSING = 'amqplib is not installed';
const isClient = (name) => /^amqp/.test(name);

const resolveFilename = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => {
  if (isClient(name)) throw new Error(MISSING);
  return resolveFilename(name, ...rest);
};

const hook = `
  export function resolve(name, context, next) {
    if (/^amqp/.test(name)) throw new Error('${MISSING}');
    return next(name, context);
  }`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
