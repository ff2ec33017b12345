# Draws figure-12ab-bf16.svg from figure-12ab-bf16.dat, in this folder: gnuplot figure-12ab-bf16.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key inside top center horizontal maxcols 3 samplen 1.5
set terminal svg size 1200,460 noenhanced background 'white'
set output 'figure-12ab-bf16.svg'
set multiplot layout 1,2 title 'Figures 12a and 12b: what each component brings, bf16'
set title 'throughput'
set xlabel ''
set ylabel 'answers/s'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-12ab-bf16.dat' index 0 using 2:xtic(1) with histograms lc rgb '#4477AA' title 'none', \
       'figure-12ab-bf16.dat' index 0 using 3:xtic(1) with histograms lc rgb '#EE6677' title 'streams', \
       'figure-12ab-bf16.dat' index 0 using 4:xtic(1) with histograms lc rgb '#228833' title 'zero copy', \
       'figure-12ab-bf16.dat' index 0 using 5:xtic(1) with histograms lc rgb '#CCBB44' title 'batching', \
       'figure-12ab-bf16.dat' index 0 using 6:xtic(1) with histograms lc rgb '#66CCEE' title 'all'
set title 'mean time of a batch'
set xlabel ''
set ylabel 'batch ms'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-12ab-bf16.dat' index 1 using 2:xtic(1) with histograms lc rgb '#4477AA' title 'none', \
       'figure-12ab-bf16.dat' index 1 using 3:xtic(1) with histograms lc rgb '#EE6677' title 'streams', \
       'figure-12ab-bf16.dat' index 1 using 4:xtic(1) with histograms lc rgb '#228833' title 'zero copy', \
       'figure-12ab-bf16.dat' index 1 using 5:xtic(1) with histograms lc rgb '#CCBB44' title 'batching', \
       'figure-12ab-bf16.dat' index 1 using 6:xtic(1) with histograms lc rgb '#66CCEE' title 'all'
unset multiplot
unset output
