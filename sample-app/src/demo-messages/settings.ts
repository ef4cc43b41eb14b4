export interface DemoSettings {
  readonly orders: number;
  readonly seed: number;
  /** A broker that is there already; `undefined` starts one. */
  readonly brokerUrl: string | undefined;
}

/** @throws Error that names the variable which is wrong. */
export function demoSettings(environment: NodeJS.ProcessEnv): DemoSettings {
  const brokerUrl = environment.BROKER_URL;
  if (brokerUrl !== undefined && !brokerUrl.startsWith('amqp://')) {
    throw new Error('The demo cuts connections by a relay: BROKER_URL must begin with amqp://');
  }
  return {
    orders: wholeNumber('DEMO_ORDERS', environment.DEMO_ORDERS ?? '1000', 1, 100_000),
    seed: wholeNumber('DEMO_SEED', environment.DEMO_SEED ?? '1', 0, 2 ** 31 - 1),
    brokerUrl,
  };
}

function wholeNumber(name: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= min && number <= max) return number;
  throw new Error(`${name} must be a whole number from ${min} to ${max}, and is ${text}`);
}
