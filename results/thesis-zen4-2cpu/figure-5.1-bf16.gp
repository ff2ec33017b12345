# Draws figure-5.1-bf16.svg and figure-5.1-bf16.png from figure-5.1-bf16.dat, in this folder: gnuplot figure-5.1-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key outside bottom center horizontal
do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg size 900,460 noenhanced background 'white' }
  if (format eq 'png') { set terminal pngcairo size 900,460 noenhanced }
  set output 'figure-5.1-bf16.'.format
  set multiplot layout 1,1 title 'Figure 5.1: speed-up of ITIF over each baseline, bf16'
  set title '4 tenants, one request each'
  set xlabel ''
  set ylabel 'times as fast as'
  unset logscale x
  set yrange [0:*]
  set xtics autofreq
  plot 'figure-5.1-bf16.dat' index 0 using 2:xtic(1) with histograms title 'seq', \
       'figure-5.1-bf16.dat' index 0 using 3:xtic(1) with histograms title 'multi-stream', \
       'figure-5.1-bf16.dat' index 0 using 4:xtic(1) with histograms title 'mps', \
       'figure-5.1-bf16.dat' index 0 using 5:xtic(1) with histograms title 'seq (thesis)', \
       'figure-5.1-bf16.dat' index 0 using 6:xtic(1) with histograms title 'multi-stream (thesis)', \
       'figure-5.1-bf16.dat' index 0 using 7:xtic(1) with histograms title 'mps (thesis)'
  unset multiplot
  unset output
}
