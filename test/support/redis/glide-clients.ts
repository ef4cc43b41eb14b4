import {
  GlideClient,
  GlideClusterClient,
  Logger,
  type BaseClientConfiguration,
} from '@valkey/valkey-glide';

export type GlideOfTest = GlideClient | GlideClusterClient;

// It writes a line for each error otherwise.
Logger.init('off');

const SLOW_TEST = { requestTimeout: 5_000 };

type Options = Partial<BaseClientConfiguration>;

export function glideClient(port: number, options: Options = {}): Promise<GlideClient> {
  const addresses = [{ host: '127.0.0.1', port }];
  return GlideClient.createClient({ addresses, ...SLOW_TEST, ...options });
}

export function glideClusterClient(
  addresses: readonly { readonly host: string; readonly port: number }[],
  options: Options = {},
): Promise<GlideClusterClient> {
  return GlideClusterClient.createClient({
    addresses: [...addresses],
    ...SLOW_TEST,
    ...options,
  });
}
