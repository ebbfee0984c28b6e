// Before the first paint: the theme that was chosen, else the system's.
{
  const theme = localStorage.getItem('met.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
}
