export { loadScripts, type LuaScripts } from '../../../../../lib/stores/redis/lua-scripts.js';
