/** Style sheets are imported as texts (tools/build/page.js). */
declare module '*.css' {
  const text: string;
  export default text;
}
