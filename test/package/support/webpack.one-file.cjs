const lazy = [
  '@nestjs/microservices',
  '@nestjs/microservices/microservices-module',
  '@nestjs/microservices/microservices-module.js',
  '@nestjs/websockets/socket-module',
  '@nestjs/websockets/socket-module.js',
  'class-validator',
  'class-transformer',
  'class-transformer/storage',
  'pg-native',
];
module.exports = (options, webpack) => ({
  ...options,
  externals: [],
  optimization: { ...options.optimization, minimize: false },
  plugins: [
    ...options.plugins,
    new webpack.IgnorePlugin({ checkResource: (resource) => lazy.includes(resource) }),
    new webpack.optimize.LimitChunkCountPlugin({ maxChunks: 1 }),
  ],
});
